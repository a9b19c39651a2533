#include "importers/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace nestplan::importers {
namespace {

/// Kernels that `kernel` reads from, in the order of its inputs.
std::vector<int> sources(const KernelGraph& graph, const Kernel& kernel) {
  std::vector<int> list;
  for (const Read& read : kernel.reads) {
    const int from = graph.writer[static_cast<std::size_t>(read.tensor)];
    if (from >= 0) list.push_back(from);
  }
  return list;
}

/// Depth first from the last kernels, sources before readers.
std::vector<int> order_of_demand(const KernelGraph& graph) {
  const std::size_t n = graph.kernels.size();
  std::vector<bool> is_read(n, false), seen(n, false);
  for (const Kernel& kernel : graph.kernels) {
    for (const int from : sources(graph, kernel)) is_read[static_cast<std::size_t>(from)] = true;
  }
  struct Visit {
    int kernel;
    std::vector<int> sources;
    std::size_t next = 0;
  };
  std::vector<int> order;
  std::vector<Visit> stack;
  const auto open = [&](int k) {
    if (seen[static_cast<std::size_t>(k)]) return;
    seen[static_cast<std::size_t>(k)] = true;
    stack.push_back({k, sources(graph, graph.kernels[static_cast<std::size_t>(k)])});
  };
  for (std::size_t k = 0; k < n; ++k) {
    if (is_read[k]) continue;
    open(static_cast<int>(k));
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next < visit.sources.size()) {
        open(visit.sources[visit.next++]);
      } else {
        order.push_back(visit.kernel);
        stack.pop_back();
      }
    }
  }
  return order;
}

bool is_numbered_block(const std::string& block) {
  return !block.empty() && block.back() >= '0' && block.back() <= '9' &&
         block.find_last_of('.') != std::string::npos;
}

}  // namespace

Layers layers_of(const KernelGraph& graph, Granularity granularity) {
  const bool numbered =
      std::any_of(graph.kernels.begin(), graph.kernels.end(),
                  [](const Kernel& kernel) { return is_numbered_block(kernel.block); });
  Layers result;
  result.of.assign(graph.kernels.size(), -1);
  std::map<std::string, int> current;    // layer of each block
  std::map<std::string, int> instances;  // of each block
  std::set<std::string> names;
  for (const int k : order_of_demand(graph)) {
    const Kernel& kernel = graph.kernels[static_cast<std::size_t>(k)];
    int& layer = current.try_emplace(kernel.block, -1).first->second;
    bool fits = layer >= 0 && granularity == Granularity::kBlock;
    for (const int from : sources(graph, kernel)) {
      // layers stay in topological order: edges never lead backwards
      fits = fits && result.of[static_cast<std::size_t>(from)] <= layer;
    }
    if (!fits) {
      const bool first = instances[kernel.block]++ == 0;
      layer = static_cast<int>(result.layers.size());
      const std::string& base = granularity == Granularity::kBlock ? kernel.block : kernel.name;
      std::string name = base;
      for (int i = 2; !names.insert(name).second; ++i) name = fmt::format("{}#{}", base, i);
      result.layers.push_back({name, numbered ? first && is_numbered_block(kernel.block) : true});
    }
    result.of[static_cast<std::size_t>(k)] = layer;
  }
  return result;
}

}  // namespace nestplan::importers

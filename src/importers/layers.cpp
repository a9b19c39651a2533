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

/// Kernels that are ordered as one, and the units that they read from, in the order of reading.
struct Unit {
  std::vector<int> kernels;
  std::vector<int> sources;
};

/// A block is a unit where no path leads out of it and back; there every kernel is one.
class Units {
 public:
  Units(const KernelGraph& graph, bool blocks) : graph_(graph), unit_of_(graph.kernels.size()) {
    std::map<std::string, int> index;
    for (std::size_t k = 0; k < graph.kernels.size(); ++k) {
      const int next = static_cast<int>(index.size());
      const std::string name = blocks ? graph.kernels[k].block : graph.kernels[k].name;
      unit_of_[k] = index.try_emplace(name, next).first->second;
    }
    connect(index.size());
    if (blocks) take_circles_apart();
  }

  const std::vector<Unit>& units() const { return units_; }

 private:
  void connect(std::size_t count) {
    units_.assign(count, {});
    for (std::size_t k = 0; k < unit_of_.size(); ++k) {
      Unit& unit = units_[static_cast<std::size_t>(unit_of_[k])];
      unit.kernels.push_back(static_cast<int>(k));
      for (const int from : sources(graph_, graph_.kernels[k])) {
        const int other = unit_of_[static_cast<std::size_t>(from)];
        if (other != unit_of_[k]) unit.sources.push_back(other);
      }
    }
  }

  /// Units that are on a circle, or behind one.
  std::vector<bool> behind_circles() const {
    std::vector<std::vector<int>> readers(units_.size());
    std::vector<std::size_t> waits(units_.size());
    std::vector<int> free;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      waits[u] = units_[u].sources.size();
      if (waits[u] == 0) free.push_back(static_cast<int>(u));
      for (const int from : units_[u].sources) {
        readers[static_cast<std::size_t>(from)].push_back(static_cast<int>(u));
      }
    }
    std::vector<bool> behind(units_.size(), true);
    while (!free.empty()) {
      const auto u = static_cast<std::size_t>(free.back());
      free.pop_back();
      behind[u] = false;
      for (const int reader : readers[u]) {
        if (--waits[static_cast<std::size_t>(reader)] == 0) free.push_back(reader);
      }
    }
    return behind;
  }

  void take_circles_apart() {
    const std::vector<bool> apart = behind_circles();
    int next = static_cast<int>(units_.size());
    for (int& unit : unit_of_) {
      if (apart[static_cast<std::size_t>(unit)]) unit = next++;
    }
    connect(static_cast<std::size_t>(next));
  }

  const KernelGraph& graph_;
  std::vector<int> unit_of_;  ///< by kernel
  std::vector<Unit> units_;
};

/// Kernels depth first from the last ones, sources before readers, units in one piece.
std::vector<int> order_of_demand(const std::vector<Unit>& units) {
  std::vector<bool> is_read(units.size(), false), seen(units.size(), false);
  for (const Unit& unit : units) {
    for (const int from : unit.sources) is_read[static_cast<std::size_t>(from)] = true;
  }
  struct Visit {
    const Unit& unit;
    std::size_t next = 0;
  };
  std::vector<int> order;
  std::vector<Visit> stack;
  const auto open = [&](std::size_t u) {
    if (seen[u]) return;
    seen[u] = true;
    stack.push_back({units[u]});
  };
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (is_read[u]) continue;
    open(u);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next < visit.unit.sources.size()) {
        open(static_cast<std::size_t>(visit.unit.sources[visit.next++]));
      } else {
        order.insert(order.end(), visit.unit.kernels.begin(), visit.unit.kernels.end());
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
  const Units units(graph, granularity == Granularity::kBlock);
  for (const int k : order_of_demand(units.units())) {
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

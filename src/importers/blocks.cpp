#include "importers/blocks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nestplan::importers {
namespace {

bool is_numbered(const std::string& part) {
  const std::size_t digits = part.find_last_not_of("0123456789") + 1;
  return digits < part.size() && (digits == 0 || part[digits - 1] == '.');
}

bool is_heavy(Kind kind) {
  return kind == Kind::kProduct || kind == Kind::kConvolution || kind == Kind::kAttention ||
         kind == Kind::kLookup;
}

/// Position of the operator that writes each tensor, -1 for none.
std::vector<int> writers(const OperatorGraph& graph) {
  std::vector<int> writer(graph.tensors.size(), -1);
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    for (const int t : graph.operators[i].outputs) {
      writer[static_cast<std::size_t>(t)] = static_cast<int>(i);
    }
  }
  return writer;
}

std::vector<std::string> by_scope(const OperatorGraph& graph) {
  const std::vector<int> writer = writers(graph);
  std::vector<std::string> blocks;
  for (const Operator& op : graph.operators) {
    std::string block = block_of(op.scope);
    if (block.empty()) {
      int last = -1;
      for (const int t : op.inputs) last = std::max(last, writer[static_cast<std::size_t>(t)]);
      if (last >= 0) block = blocks[static_cast<std::size_t>(last)];
    }
    blocks.push_back(std::move(block));
  }
  for (std::size_t i = graph.operators.size(); i-- > 0;) {
    if (blocks[i].empty()) blocks[i] = "model";
    for (const int t : graph.operators[i].inputs) {
      const int from = writer[static_cast<std::size_t>(t)];
      if (from >= 0 && blocks[static_cast<std::size_t>(from)].empty()) {
        blocks[static_cast<std::size_t>(from)] = blocks[i];
      }
    }
  }
  return blocks;
}

/// Tensors that are alive behind each operator: written there or before, read later.
std::vector<int> crossing(const OperatorGraph& graph) {
  const std::size_t n = graph.operators.size();
  const std::vector<int> writer = writers(graph);
  std::vector<int> last_reader(graph.tensors.size(), -1);
  for (std::size_t i = 0; i < n; ++i) {
    for (const int t : graph.operators[i].inputs) {
      last_reader[static_cast<std::size_t>(t)] = static_cast<int>(i);
    }
  }
  std::vector<int> change(n + 1, 0);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    if (writer[t] < 0 || last_reader[t] <= writer[t]) continue;
    ++change[static_cast<std::size_t>(writer[t])];
    --change[static_cast<std::size_t>(last_reader[t])];
  }
  for (std::size_t i = 1; i <= n; ++i) change[i] += change[i - 1];
  return change;
}

std::vector<std::string> by_cuts(const OperatorGraph& graph) {
  const std::vector<int> alive = crossing(graph);
  const std::size_t n = graph.operators.size();
  std::vector<std::string> blocks(n);
  int block = 0;
  bool heavy = false;
  for (std::size_t begin = 0; begin < n;) {
    std::size_t end = begin + 1;
    while (end < n && alive[end - 1] != 1) ++end;
    const bool part_is_heavy =
        std::any_of(graph.operators.begin() + static_cast<std::ptrdiff_t>(begin),
                    graph.operators.begin() + static_cast<std::ptrdiff_t>(end),
                    [](const Operator& op) { return is_heavy(op.kind); });
    if (part_is_heavy && heavy) ++block;
    heavy = heavy || part_is_heavy;
    std::fill(blocks.begin() + static_cast<std::ptrdiff_t>(begin),
              blocks.begin() + static_cast<std::ptrdiff_t>(end), fmt::format("block.{}", block));
    begin = end;
  }
  return blocks;
}

}  // namespace

std::string block_of(const std::vector<std::string>& scope) {
  if (scope.empty()) return "";
  const auto numbered = std::find_if(scope.begin(), scope.end(), is_numbered);
  if (numbered == scope.end()) return scope.front();
  return fmt::format("{}", fmt::join(scope.begin(), numbered + 1, "."));
}

std::vector<std::string> blocks_of(const OperatorGraph& graph) {
  const bool scoped = std::any_of(graph.operators.begin(), graph.operators.end(),
                                  [](const Operator& op) { return !op.scope.empty(); });
  return scoped ? by_scope(graph) : by_cuts(graph);
}

}  // namespace nestplan::importers

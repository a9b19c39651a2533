#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/model/architecture.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"

namespace nestplan::cases {

inline constexpr double kMiB = 1024.0 * 1024;
inline constexpr double kGiB = 1024.0 * kMiB;

/// A layer of a chain: a third of its seconds is forward, the rest backward.
struct Piece {
  double seconds = 1;
  double parameters = 0;  ///< of one byte each, see `chain`
  bool counted = true;
};

/// `count` equal pieces.
std::vector<Piece> pieces(std::int64_t count, const Piece& each = {});

/// Pieces behind each other.
std::vector<Piece> joined(std::initializer_list<std::vector<Piece>> parts);

/// Layers in a row, between which nothing is sent, on one copy of a pipeline of `pp` stages of one
/// device each: 1,024 micro-batches, no ZeRO, no recomputation, a byte of state per parameter. The
/// time of an iteration then follows from its bottleneck alone.
model::Problem chain(const std::vector<Piece>& pieces, std::int64_t pp);

model::Plan solve(const model::Problem& problem);

/// Layers of every stage; `counted`: those alone that rules count.
std::vector<std::int64_t> sizes(const model::Plan& plan);
std::vector<std::int64_t> counted_sizes(const model::Plan& plan, const model::Graph& graph);

/// Seconds of the slowest stage.
double bottleneck(const model::Plan& plan);

/// The least that the largest sum of `parts` runs of `costs` can be, by trying all splits.
double least_bottleneck(const std::vector<double>& costs, std::int64_t parts);

/// Every layer is in one stage, and stages follow one another. For chains.
void expect_complete(const model::Plan& plan, std::size_t layers);

/// One node of `devices`, with ample memory.
model::Cluster node(std::int64_t devices, double memory_bytes = 1e15);

/// A decoder of the GPT family: biases, layer norms, dropout, an MLP four times as wide.
model::Architecture gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                        std::int64_t vocabulary);

}  // namespace nestplan::cases

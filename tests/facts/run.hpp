#pragma once

#include <cstdint>
#include <vector>

#include "nestplan/cost/profile.hpp"
#include "nestplan/model/architecture.hpp"
#include "nestplan/model/graph.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::facts {

/// A published training run in the words of the model.
struct Run {
  model::Architecture architecture;
  cost::ProfileOptions profile;  ///< one degree of each kind, one micro-batch
  std::int64_t pp = 1;
  std::int64_t vpp = 1;
  std::int64_t dp = 1;
  std::int64_t global_batch = 1;
  /// Blocks of every part of the pipeline, in the order in which a micro-batch passes them: pp·vpp
  /// of them. The token table precedes the first, the output layer follows the last.
  std::vector<std::int64_t> blocks;
  model::Recompute recompute = model::Recompute::kNone;
  int zero = 0;
  model::StateBytes state;
  /// Selective recomputation keeps every second matrix product, as torchtitan's does.
  bool every_second_product = false;
  /// Under ZeRO 3 token table and output layer are gathered together and for the whole step, and
  /// two blocks beside them, the second while the first computes: FSDP2 as pytorch/torchtitan uses
  /// it, apply_fsdp in torchtitan/parallelisms/parallelize_llama.py. Without pipelines.
  bool gathers_tables = false;

  std::int64_t tp() const { return profile.tp.front(); }
  std::int64_t cp() const { return profile.cp.front(); }
  std::int64_t micro_batch() const { return profile.micro_batches.front(); }
  std::int64_t microbatches() const { return global_batch / (dp * micro_batch()); }
  std::int64_t devices() const { return tp() * cp() * dp * pp; }
};

/// Blocks in equal parts, the last one short if they do not divide.
std::vector<std::int64_t> even_split(std::int64_t blocks, std::int64_t parts);

/// Token table and output layer count as blocks, so that the first and the last part have one less.
/// Throws InvalidInput if that does not come out even.
std::vector<std::int64_t> balanced_split(std::int64_t blocks, std::int64_t parts);

/// Logits of a micro-batch on one device.
double logits_of(const Run& run);

/// The graph with its single column.
model::Graph graph_of(const Run& run);

/// Memory of every stage as the evaluator accounts for it.
std::vector<model::StageMemory> account(const Run& run, const model::MemoryReserve& reserve);

}  // namespace nestplan::facts

#include "cost/profile_kernels.hpp"

#include <algorithm>

namespace nestplan::cost {
namespace {

using model::CollectiveOp;
using model::Phase;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Share make_share(const model::Architecture& a, const ProfileOptions& options, std::int64_t sequence,
                 const Degrees& degrees) {
  Share share{a, degrees};
  share.tp = static_cast<double>(degrees.tp);
  share.cp = static_cast<double>(degrees.cp);
  share.sequences = static_cast<double>(degrees.micro_batch);
  share.sequence = static_cast<double>(sequence);
  share.tokens = share.sequences * share.sequence / share.cp;
  share.sequence_parallel = options.sequence_parallel && degrees.tp > 1;
  share.fused_attention = options.fused_attention;
  share.logit_bytes = options.logit_bytes;
  share.routing_imbalance = options.routing_imbalance;
  share.capacity_factor = options.capacity_factor;
  share.row_tokens = share.sequence_parallel ? share.tokens / share.tp : share.tokens;
  share.padded_vocab =
      static_cast<double>(round_up(a.vocab, options.vocabulary_multiple * degrees.tp));
  return share;
}

double attention_pairs(const model::Architecture& a, double tokens, std::int64_t layer) {
  const double window = static_cast<double>(a.window(layer));
  const double reach = window > 0 ? std::min(window, tokens) : tokens;
  return a.causal ? reach * tokens - reach * reach / 2 : reach * tokens;
}

void Messages::enter() {
  if (share_.sequence_parallel) {
    cost_.working_bytes = std::max(cost_.working_bytes, 2 * bytes_);
    add(Phase::kForward, CollectiveOp::kAllGather, bytes_);
    add(Phase::kBackward, CollectiveOp::kAllGather, bytes_);
    add(Phase::kBackward, CollectiveOp::kReduceScatter, bytes_);
  } else {
    add(Phase::kBackward, CollectiveOp::kAllReduce, bytes_);
  }
}

void Messages::leave() {
  if (share_.sequence_parallel) {
    add(Phase::kForward, CollectiveOp::kReduceScatter, bytes_);
    add(Phase::kBackward, CollectiveOp::kAllGather, bytes_);
  } else {
    add(Phase::kForward, CollectiveOp::kAllReduce, bytes_);
  }
}

/// With sequence parallelism each device goes on with its own tokens, whose gradients are gathered.
void Messages::collect() {
  add(Phase::kForward, CollectiveOp::kAllGather, bytes_);
  if (share_.sequence_parallel) add(Phase::kBackward, CollectiveOp::kAllGather, bytes_);
}

void Messages::loss() {
  for (int i = 0; i < 3; ++i) {
    add(Phase::kForward, CollectiveOp::kAllReduce, share_.tokens * kFp32);
  }
}

void Messages::add(Phase phase, CollectiveOp op, double bytes) {
  if (share_.tp > 1) cost_.collectives.push_back({phase, op, model::GroupKind::kTensor, bytes});
}

}  // namespace nestplan::cost

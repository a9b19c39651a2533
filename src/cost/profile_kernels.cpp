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
                 std::int64_t tp, std::int64_t micro_batch) {
  Share share{a};
  share.tp = static_cast<double>(tp);
  share.sequences = static_cast<double>(micro_batch);
  share.sequence = static_cast<double>(sequence);
  share.tokens = share.sequences * share.sequence;
  share.sequence_parallel = options.sequence_parallel && tp > 1;
  share.row_tokens = share.sequence_parallel ? share.tokens / share.tp : share.tokens;
  share.padded_vocab = static_cast<double>(round_up(a.vocab, options.vocabulary_multiple * tp));
  return share;
}

double attention_pairs(const model::Architecture& a, double tokens, std::int64_t layer) {
  const double window = static_cast<double>(a.window(layer));
  const double reach = window > 0 ? std::min(window, tokens) : tokens;
  return a.causal ? reach * tokens - reach * reach / 2 : reach * tokens;
}

void Messages::enter() {
  if (share_.sequence_parallel) {
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

void Messages::loss() {
  for (int i = 0; i < 3; ++i) {
    add(Phase::kForward, CollectiveOp::kAllReduce, share_.tokens * kFp32);
  }
}

void Messages::add(Phase phase, CollectiveOp op, double bytes) {
  if (share_.tp > 1) cost_.collectives.push_back({phase, op, model::GroupKind::kTensor, bytes});
}

}  // namespace nestplan::cost

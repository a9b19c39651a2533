#include "cost/profile_moe.hpp"

#include <algorithm>

namespace nestplan::cost {
namespace {

using model::CollectiveOp;
using model::GroupKind;
using model::Phase;

/// Per token and expert: score and weight in fp32, and whether it goes there.
constexpr double kRouterBytes = 4 + 4 + 1;
/// Passes over the router's logits, each way: score, choice of the largest, weights.
constexpr double kRouterPasses = 3;
/// Per copy of a token: the expert that it goes to, and its weight.
constexpr double kRouteBytes = 4 + 4;

/// Copies in the fullest shard over those in the average one. No shard gets more than all tokens,
/// and of a token not more copies than it has experts.
double load_of(const Share& share) {
  if (share.capacity_factor > 0) return share.capacity_factor;
  const model::MixtureOfExperts& moe = *share.a.moe;
  const double ways = static_cast<double>(share.degrees.ep);
  const double copies = static_cast<double>(moe.top_k);
  const double most = std::min(copies, static_cast<double>(moe.experts) / ways);
  return std::min(share.routing_imbalance, ways * most / copies);
}

class ExpertDrawing {
 public:
  ExpertDrawing(const ExpertOps& ops, const Share& share, const CostModel& costs, Draft& draft)
      : ops_(ops),
        s_(share),
        moe_(*share.a.moe),
        own_(share),
        costs_(costs),
        draft_(draft),
        bytes_(costs.precision().activation_bytes) {}

  void run(std::int64_t index, const Tensor& normed, Op sum) {
    draw_router();
    draw_dispatch();
    draw_experts();
    draw_combine();
    if (ops_.shared) draw_shared();
    hold(operator_parameters(s_.a, index));
    connect(normed, sum);
  }

 private:
  double copy_elements() const { return own_.received() * s_.hidden(); }
  double expert_in() const {
    return static_cast<double>(s_.a.mlp_in_width(moe_.expert_ffn)) / own_.etp();
  }
  double shared_width() const { return static_cast<double>(moe_.shared_ffn) / s_.tp; }
  double shared_in() const {
    return static_cast<double>(s_.a.mlp_in_width(moe_.shared_ffn)) / s_.tp;
  }

  Timer timer(Op op) { return Timer(costs_, draft_.cost(op)); }
  void keep(Op op, double bytes) { draft_.cost(op).activation_bytes += bytes; }
  /// Of an activation function's output, or of a norm's.
  void keep_output(Op op, double elements) {
    if (s_.fused_attention) {
      draft_.keep_unless_selective(op, bytes_ * elements);
    } else {
      keep(op, bytes_ * elements);
    }
  }

  void draw_router() {
    const double experts = static_cast<double>(moe_.experts);
    Timer time = timer(ops_.router);
    time.linear(s_.row_tokens, s_.hidden(), experts, kFp32);
    if (moe_.shared_gate) time.linear(s_.row_tokens, s_.hidden(), 1);
    const double logits = kFp32 * s_.row_tokens * experts;
    time.memory(kRouterPasses * logits, kRouterPasses * logits);
    keep_output(ops_.router, s_.rows());
    keep(ops_.router, kRouterBytes * s_.row_tokens * experts);
  }

  /// One way: a read and a write of the copies; once more where they are sorted on arrival.
  double sorting_bytes() const {
    const double own = bytes_ * (own_.sent() * s_.hidden() + s_.rows());
    const bool sorted_again = own_.local_experts() > 1 && s_.degrees.ep > 1;
    return own + (sorted_again ? 2 * bytes_ * copy_elements() : 0);
  }

  void draw_dispatch() {
    timer(ops_.dispatch).memory(sorting_bytes(), sorting_bytes());
    trade(ops_.dispatch);
    share_copies(ops_.dispatch, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter);
  }

  void draw_combine() {
    timer(ops_.combine).memory(sorting_bytes(), sorting_bytes());
    share_copies(ops_.combine, CollectiveOp::kReduceScatter, CollectiveOp::kAllGather);
    trade(ops_.combine);
  }

  void draw_experts() {
    const double each = own_.received() / own_.local_experts();
    timer(ops_.in).grouped_linear(own_.local_experts(), each, s_.hidden(), expert_in());
    keep(ops_.in, bytes_ * copy_elements() + kFp32 * own_.received());
    const double inner = own_.received() * own_.width();
    timer(ops_.act).again_if(s_.fused_attention).activation(own_.received() * expert_in(), inner);
    keep(ops_.act, bytes_ * own_.received() * expert_in());
    timer(ops_.out).grouped_linear(own_.local_experts(), each, own_.width(), s_.hidden());
    keep_output(ops_.out, inner);
  }

  /// A plain MLP. It gathers the tokens that the router has seen in parts.
  void draw_shared() {
    const ExpertOps::Shared& shared = *ops_.shared;
    timer(shared.in).linear(s_.tokens, s_.hidden(), shared_in());
    timer(shared.act)
        .again_if(s_.fused_attention)
        .activation(s_.tokens * shared_in(), s_.tokens * shared_width());
    keep(shared.act, bytes_ * s_.tokens * shared_in());
    timer(shared.out).linear(s_.tokens, shared_width(), s_.hidden());
    keep_output(shared.out, s_.tokens * shared_width());
    timer(shared.out).residual(s_.rows());
    Messages(s_, s_.hidden(), bytes_, draft_.cost(shared.in)).enter();
    Messages(s_, s_.hidden(), bytes_, draft_.cost(shared.out)).leave();
  }

  /// Both ways, since backward sends the gradients along the same routes. Tensor-parallel peers
  /// with the same experts do not trade: the bytes are those of an all_to_all of the whole group in
  /// which a device sends as many.
  void trade(Op op) {
    const double bytes = bytes_ * own_.sent() * s_.hidden();
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      if (own_.data_ways() > 1) add(op, phase, CollectiveOp::kAllToAll, GroupKind::kExpert, bytes);
      if (own_.tensor_ways() == 1) continue;
      const double others = 1 - 1 / own_.tensor_ways();
      add(op, phase, CollectiveOp::kAllToAll, GroupKind::kTensor,
          bytes * others * s_.tp / (s_.tp - 1));
    }
  }

  /// Among the devices that hold parts of the same experts; if these are not the whole
  /// tensor-parallel group, with the bytes at which that would send as many.
  void share_copies(Op op, CollectiveOp forward, CollectiveOp backward) {
    if (own_.etp() == 1) return;
    const double sent = bytes_ * copy_elements() * (1 - 1 / own_.etp());
    const double bytes = sent * s_.tp / (s_.tp - 1);
    add(op, Phase::kForward, forward, GroupKind::kTensor, bytes);
    add(op, Phase::kBackward, backward, GroupKind::kTensor, bytes);
  }

  void add(Op op, Phase phase, CollectiveOp collective, GroupKind group, double bytes) {
    draft_.cost(op).collectives.push_back({phase, collective, group, bytes});
  }

  void hold(const model::BlockParameters& block) {
    draft_.cost(ops_.router).parameters += s_.parameters(block.router);
    draft_.cost(ops_.in).expert_parameters += own_.parameters(block.expert_in);
    draft_.cost(ops_.out).expert_parameters += own_.parameters(block.expert_out);
    if (!ops_.shared) return;
    draft_.cost(ops_.shared->in).parameters += s_.parameters(block.shared_in);
    draft_.cost(ops_.shared->out).parameters += s_.parameters(block.shared_out);
  }

  void connect(const Tensor& normed, Op sum) {
    const double copies = bytes_ * copy_elements();
    const Tensor routes{ops_.router, kRouteBytes * own_.sent()};
    draft_.connect(normed, ops_.router);
    draft_.connect(normed, ops_.dispatch);
    draft_.connect(routes, ops_.dispatch);
    draft_.connect({ops_.dispatch, copies}, ops_.in);
    draft_.connect({ops_.in, bytes_ * own_.received() * expert_in()}, ops_.act);
    draft_.connect({ops_.act, bytes_ * own_.received() * own_.width()}, ops_.out);
    draft_.connect({ops_.out, copies}, ops_.combine);
    draft_.connect(routes, ops_.combine);
    draft_.connect({ops_.combine, bytes_ * s_.rows()}, sum);
    if (!ops_.shared) return;
    draft_.connect(normed, ops_.shared->in);
    draft_.connect({ops_.shared->in, bytes_ * s_.tokens * shared_in()}, ops_.shared->act);
    draft_.connect({ops_.shared->act, bytes_ * s_.tokens * shared_width()}, ops_.shared->out);
    draft_.connect({ops_.shared->out, bytes_ * s_.rows()}, sum);
  }

  const ExpertOps& ops_;
  const Share& s_;
  const model::MixtureOfExperts& moe_;
  ExpertShare own_;
  const CostModel& costs_;
  Draft& draft_;
  double bytes_;
};

}  // namespace

ExpertShare::ExpertShare(const Share& share)
    : experts_(static_cast<double>(share.a.moe->experts)),
      ways_(static_cast<double>(share.degrees.ep)),
      etp_(static_cast<double>(share.degrees.etp)),
      tp_(share.tp),
      width_(static_cast<double>(share.a.moe->expert_ffn) / etp_),
      sent_(share.row_tokens * static_cast<double>(share.a.moe->top_k) * load_of(share)),
      received_(etp_ * sent_) {}

double ExpertShare::parameters(const model::ParameterCount& count) const {
  return static_cast<double>(count.split) / (ways_ * etp_) +
         static_cast<double>(count.replicated) / ways_;
}

ExpertOps add_expert_ops(Draft& draft, const model::Architecture& architecture,
                         const std::string& layer, const std::string& block,
                         const std::string& prefix) {
  const auto op = [&](const char* name) { return draft.add(layer, block, prefix + name); };
  ExpertOps ops;
  ops.router = op("router");
  ops.dispatch = op("dispatch");
  ops.in = op("expert_in");
  ops.act = op("expert_act");
  ops.out = op("expert_out");
  ops.combine = op("combine");
  if (architecture.moe->shared_ffn > 0) {
    ops.shared.emplace();
    ops.shared->in = op("shared_in");
    ops.shared->act = op("shared_act");
    ops.shared->out = op("shared_out");
  }
  return ops;
}

void draw_experts(const ExpertOps& ops, std::int64_t index, const Share& share,
                  const CostModel& costs, Draft& draft, const Tensor& normed, Op sum) {
  ExpertDrawing(ops, share, costs, draft).run(index, normed, sum);
}

}  // namespace nestplan::cost

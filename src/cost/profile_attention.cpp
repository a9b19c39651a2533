#include "cost/profile_attention.hpp"

#include <algorithm>
#include <cmath>

namespace nestplan::cost {
namespace {

using model::CollectiveOp;
using model::ContextForm;
using model::GroupKind;
using model::Phase;

class CoreDrawing {
 public:
  CoreDrawing(const AttentionCore& core, const Share& share, const CostModel& costs, Draft& draft,
              Op op)
      : core_(core),
        s_(share),
        costs_(costs),
        draft_(draft),
        op_(op),
        bytes_(costs.precision().activation_bytes) {}

  void run() {
    draw_time();
    keep();
    if (s_.cp == 1 || local_windows()) return;
    if (ring()) {
      pass_around();
    } else {
      trade();
    }
  }

 private:
  bool ring() const { return s_.degrees.context == ContextForm::kRing; }
  bool local_windows() const { return core_.windows > 1 && std::fmod(core_.windows, s_.cp) == 0; }

  /// Copies of the keys and values that trading heads for tokens needs.
  double copies() const {
    return ring() || local_windows() ? 1 : std::max(1.0, s_.cp / core_.kv_heads);
  }

  double query_elements() const {
    return s_.sequences * core_.tokens / s_.cp * core_.heads * core_.key_dim;
  }
  double key_value_elements() const {
    return s_.sequences * core_.keys / s_.cp * core_.kv_heads * (core_.key_dim + core_.value_dim);
  }
  double output_elements() const {
    return s_.sequences * core_.tokens / s_.cp * core_.heads * core_.value_dim;
  }

  void draw_time() {
    Attention one{s_.sequences * core_.windows,
                  core_.tokens / core_.windows,
                  core_.heads,
                  core_.kv_heads,
                  (core_.key_dim + core_.value_dim) / 2,
                  core_.pairs / core_.windows};
    one.kv_tokens = core_.keys / core_.windows;
    one.fused = s_.fused_attention;
    one.dropout = s_.a.hidden_dropout;
    Timer timer = Timer(costs_, draft_.cost(op_)).again_if(!s_.fused_attention);
    if (s_.cp == 1) {
      timer.attention(one);
    } else if (local_windows()) {
      one.sequences /= s_.cp;
      timer.attention(one);
    } else if (ring()) {
      one.tokens /= s_.cp;
      one.kv_tokens /= s_.cp;
      one.pairs /= s_.cp * s_.cp;
      timer.attention(one, s_.cp);
    } else {
      one.heads /= s_.cp;
      one.kv_heads = std::max(1.0, one.kv_heads / s_.cp);
      timer.attention(one);
    }
  }

  void keep() {
    model::LayerCost& cost = draft_.cost(op_);
    const double inputs = bytes_ * (query_elements() + copies() * key_value_elements());
    if (s_.fused_attention && s_.a.latent) {
      draft_.keep_unless_selective(op_, inputs);
    } else {
      cost.activation_bytes += inputs;
    }
    if (s_.fused_attention) {
      cost.activation_bytes += kFp32 * s_.sequences * core_.tokens / s_.cp * core_.heads;
    } else {
      const double scores = s_.sequences * core_.heads * core_.tokens * core_.keys / core_.windows;
      draft_.keep_unless_selective(op_, scores * (s_.a.hidden_dropout ? 2 * bytes_ + 1 : bytes_));
    }
    if (s_.cp > 1 && !ring() && !local_windows()) {
      cost.activation_bytes += bytes_ * output_elements();
    }
  }

  void pass_around() {
    const double whole = bytes_ * key_value_elements() * s_.cp;
    send(Phase::kForward, CollectiveOp::kAllGather, whole);
    send(Phase::kBackward, CollectiveOp::kAllGather, whole);
    send(Phase::kBackward, CollectiveOp::kReduceScatter, whole);
  }

  void trade() {
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      send(phase, CollectiveOp::kAllToAll,
           bytes_ * (query_elements() + copies() * key_value_elements()));
      send(phase, CollectiveOp::kAllToAll, bytes_ * output_elements());
    }
  }

  void send(Phase phase, CollectiveOp op, double bytes) {
    draft_.cost(op_).collectives.push_back({phase, op, GroupKind::kContext, bytes});
  }

  const AttentionCore& core_;
  const Share& s_;
  const CostModel& costs_;
  Draft& draft_;
  Op op_;
  double bytes_;
};

}  // namespace

void draw_attention_core(const AttentionCore& core, const Share& share, const CostModel& costs,
                         Draft& draft, Op op) {
  CoreDrawing(core, share, costs, draft, op).run();
}

}  // namespace nestplan::cost

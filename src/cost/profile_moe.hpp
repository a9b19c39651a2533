#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cost/profile_draft.hpp"
#include "cost/profile_kernels.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/model/architecture.hpp"

namespace nestplan::cost {

/// The operators of a block's experts, in the place of an MLP's.
struct ExpertOps {
  Op router;
  Op dispatch;  ///< sorts the tokens by expert and sends them there
  Op in;
  Op act;
  Op out;
  Op combine;  ///< sends them back and sums the copies of each up

  struct Shared {
    Op in;
    Op act;
    Op out;
  };
  std::optional<Shared> shared;
};

/// Adds `router`, `dispatch`, `expert_in`, `expert_act`, `expert_out` and `combine`, and
/// `shared_in`, `shared_act` and `shared_out` if all tokens go through an MLP beside the experts.
ExpertOps add_expert_ops(Draft& draft, const model::Architecture& architecture,
                         const std::string& layer, const std::string& block,
                         const std::string& prefix);

/// How the experts of a block fall to the devices of one column, and the tokens with them.
///
/// E experts are dealt out EP ways and each is split etp ways along its width, so that EP·etp
/// devices hold them all. Of n tokens a device sends n·top_k copies. A shard of E/EP experts, which
/// is etp devices, gets etp·n·top_k of them if all shards get as many: what a device computes and
/// keeps does not depend on EP. The fullest shard gets `load` times that.
///
/// The EP·etp devices are the tensor-parallel group and strategy.ep = EP·etp/tp members of the
/// data-parallel group, whose tensor-parallel groups hold different experts.
class ExpertShare {
 public:
  explicit ExpertShare(const Share& share);

  double local_experts() const { return experts_ / ways_; }
  double sent() const { return sent_; }          ///< copies of a device's own tokens
  double received() const { return received_; }  ///< copies that a device's experts go over
  double width() const { return width_; }        ///< of a device's part of an expert
  double etp() const { return etp_; }
  /// Members of the data-parallel group, and of the tensor-parallel group, with other experts.
  double data_ways() const { return ways_ * etp_ / tp_; }
  double tensor_ways() const { return tp_ / etp_; }

  /// Parameters per device of a count over all experts.
  double parameters(const model::ParameterCount& count) const;

 private:
  double experts_ = 0;
  double ways_ = 1;
  double etp_ = 1;
  double tp_ = 1;
  double width_ = 0;
  double sent_ = 0;
  double received_ = 0;
};

/// Draws the experts of block `index`, which read `normed` and end in the sum `sum`: edges, times,
/// messages, parameters, and activations (all but those of the norm in front).
///
/// - The router is a product of 16-bit operands with results in fp32, on a device's own tokens
///   (RouterGatingLinearFunction in megatron/core/transformer/moe/moe_utils.py of
///   NVIDIA/Megatron-LM).
/// - Dispatch sorts a device's copies by expert and trades them in an all_to_all; with several
///   experts a shard, what arrives is sorted once more. Between tensor-parallel peers with
///   different experts it is a second all_to_all of the same bytes: hierarchical, as in DeepSeek-V3
///   (arXiv 2412.19437, section 3.2.2). Peers with parts of the same experts gather their copies.
///   Combine does all that in reverse, and backward mirrors both (MoEAlltoAllTokenDispatcher in
///   megatron/core/transformer/moe/token_dispatcher.py).
/// - The products of all local experts are one kernel, for equal numbers of tokens.
/// - The weights of the copies are applied by the activation function, so that what the experts
///   put out need not be kept (moe_utils.py and experts.py there).
///
/// Kept, per device:
///
///   tensor                                      elements                    bytes each
///   input of router, dispatch and shared MLP    rows                        activation   *
///   scores, weights and map of the router       row_tokens·experts          4 + 4 + 1
///   copies that enter the experts               received·hidden             activation
///   their weights                               received                    4
///   input of the activation function            received·mlp_in             activation
///   its output                                  received·width              activation   *
///   of the shared MLP: the input of its         tokens·mlp_in               activation
///   activation function, and its output         tokens·width                activation   *
///
/// Selective recomputation drops what is marked *, as in plain MLPs (module moe_act).
void draw_experts(const ExpertOps& ops, std::int64_t index, const Share& share,
                  const CostModel& costs, Draft& draft, const Tensor& normed, Op sum);

}  // namespace nestplan::cost

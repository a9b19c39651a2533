#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/model/cluster.hpp"
#include "nestplan/model/graph.hpp"
#include "nestplan/model/plan_outline.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::placement {

/// How ranks are numbered: which index runs fastest, second …
///
/// `tp-cp-ep-dp-pp` is the default of Megatron-LM (`order` of initialize_model_parallel and
/// RankGenerator, megatron/core/parallel_state.py), and the order of torchtitan's mesh, outermost
/// first [pp, dp_replicate, dp_shard, cp, tp] (ParallelDims, torchtitan/distributed/
/// parallel_dims.py), and of DeepSpeed's grid ['pipe', 'data', 'model']
/// (PipeModelDataParallelTopology, deepspeed/runtime/pipe/topology.py): the three number alike.
/// `tp-cp-ep-pp-dp` is Megatron-LM's `--use-tp-pp-dp-mapping`, where a pipeline's ranks are
/// neighbours.
///
/// `ep` has no place of its own: expert groups are cut out of the ranks of a stage in their order,
/// etp fastest, then ep, as Megatron-LM's second RankGenerator does.
enum class RankOrder : std::uint8_t {
  kPipelineLast,  ///< rank = tp + TP·(cp + CP·(dp + DP·pp))
  kDataLast       ///< rank = tp + TP·(cp + CP·(pp + PP·dp))
};

std::vector<std::string> rank_order_names();  ///< in the order of the enumerators
const char* to_string(RankOrder order);
/// Throws InvalidInput with the nearest known name.
RankOrder parse_rank_order(std::string_view name);

/// Where a rank runs and what it is.
struct Seat {
  std::int64_t rank = 0;
  std::int64_t device = 0;
  std::int64_t place = 0;  ///< of the cluster's network, see model::Cluster
  std::int64_t host = 0;   ///< index into Placement::hosts
  std::int64_t local = 0;  ///< index of the device inside the host
  std::int64_t pod = 0;
  std::int64_t stage = 0;
  std::int64_t dp = 0;  ///< in [0, dp_inner·dp_outer), pod by pod
  std::int64_t cp = 0;
  std::int64_t tp = 0;
  std::int64_t ep = 0;   ///< index in the framework's expert group, which has ep·tp/etp ranks
  std::int64_t etp = 0;  ///< index among the ranks that share an expert
  bool operator==(const Seat&) const = default;
};

struct HostSeats {
  std::string name;       ///< "host0" … where the cluster does not name them
  std::int64_t used = 0;  ///< devices with a rank
  std::int64_t devices = 0;
};

/// A plan on the devices of a cluster.
struct Placement {
  model::PlanOutline plan;
  RankOrder order = RankOrder::kPipelineLast;
  std::vector<Seat> seats;  ///< by rank
  std::vector<Seat> idle;   ///< devices without a rank, ascending; of a seat only its place counts
  std::vector<HostSeats> hosts;  ///< all of the cluster, in the order of their places
  bool named_hosts = false;
  bool rails = false;  ///< a level joins devices with the same index in their hosts

  /// Hosts with a rank, ascending.
  std::vector<std::int64_t> used_hosts() const;
};

/// What has to be known of a plan to place it. `ep` of a graph without experts is taken as it is,
/// with etp = tp.
model::PlanOutline outline_of(const model::Plan& plan, const model::Graph& graph);

/// Why `place` would refuse the plan; empty if it would not. With kDataLast, and more than one
/// stage, Megatron-LM has no grid for experts that are dealt out otherwise than over tp·cp ranks.
std::string obstacle(const model::PlanOutline& plan, const model::Cluster& cluster,
                     RankOrder order = RankOrder::kPipelineLast);

/// Puts the ranks of a plan on devices: pod `j` begins at device `j·floor(N/dp_outer)`, a stage at
/// its position there, and inside of it tp runs fastest, then cp, then dp_inner. A bijection
/// between ranks and the devices in use.
///
/// Where stages differ in tp or cp, the grid of no framework fits: ranks are then numbered stage by
/// stage in the order of the positions (kPipelineLast), or so inside of every copy (kDataLast).
///
/// `host_names` name the cluster's hosts in order; empty: those of the cluster. Throws InvalidInput
/// for a plan that does not lie within the pods of this cluster or whose expert groups do not
/// exist there, and for another number of names than there are hosts.
Placement place(const model::PlanOutline& plan, const model::Cluster& cluster,
                RankOrder order = RankOrder::kPipelineLast,
                const std::vector<std::string>& host_names = {});

/// Ranks that communicate with each other.
enum class GroupKind : std::uint8_t {
  kTensor,
  kContext,
  kExpert,      ///< the framework's: ep·tp/etp ranks of a stage at stride etp
  kData,        ///< with the context-parallel peers, which hold the same weights
  kExpertData,  ///< the peers of an expert shard, over all pods
  kPipeline     ///< the devices that hand activations on to each other, stage after stage
};
inline constexpr GroupKind kGroupKinds[] = {GroupKind::kTensor,     GroupKind::kContext,
                                            GroupKind::kExpert,     GroupKind::kData,
                                            GroupKind::kExpertData, GroupKind::kPipeline};
const char* to_string(GroupKind kind);  ///< "tp", "cp", "ep", "dp", "edp", "pp"

/// Ranks in the order of their index in the group; at least two.
using Group = std::vector<std::int64_t>;

/// All groups of a kind, stage by stage. Empty where the degree is 1.
std::vector<Group> groups(const Placement& placement, GroupKind kind);

/// How the groups of a kind lie in the domains of the network.
struct Spread {
  GroupKind kind = GroupKind::kTensor;
  std::int64_t groups = 0;
  std::int64_t members = 0;             ///< of the largest group
  std::vector<std::int64_t> in_domain;  ///< groups by the innermost of Network::domains() they fit
  int worst = 0;                        ///< the outermost domain that one of them needs
  /// The innermost domain that one of them fits into: groups that need a wider one straddle it.
  int best = 0;
  /// With rails, groups whose hosts do not all hold members with the same local indices: their
  /// traffic has to change rails.
  std::int64_t mixed_rails = 0;
};

/// Of the kinds of which there are groups.
std::vector<Spread> spreads(const Placement& placement, const network::Network& network);

/// The hosts in use in Slurm's notation, `node[1-4,7]`; empty where hosts have no names,
/// or some that it cannot hold.
std::string host_list(const Placement& placement);

/// Nodes that must share a block of the network so that no expert group leaves its block.
struct Segment {
  std::int64_t span = 0;  ///< nodes that the widest expert group touches, first to last
  /// For Slurm's `--segment`: the least number, at least `span`, that divides the number of nodes
  /// in use and none of whose multiples parts an expert group; the whole job at worst.
  std::int64_t nodes = 0;
};

/// Zero for a plan whose expert groups stay inside of nodes. For groups that are aligned to nodes
/// `span` is EP·ETP / (devices of a node).
Segment segment(const Placement& placement);

}  // namespace nestplan::placement

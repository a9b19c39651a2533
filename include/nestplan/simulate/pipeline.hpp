#pragma once

#include <cstdint>
#include <vector>

#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::simulate {

/// What a transfer needs of a link while it runs at a rate of `r` bytes/s per device: `weight · r`.
struct LinkUse {
  std::int64_t link = 0;  ///< index into PodKind::links
  double weight = 0;
};

/// What a step waits for before it can compute: from the neighbouring part of the model, over the
/// network, paid by the receiver.
struct Transfer {
  double seconds = 0;  ///< with no other transfer in the way; 0: nothing is sent
  double latency_s = 0;
  double rate = 0;  ///< bytes/s per device, with no other transfer in the way
  double device_bytes = 0;
  double pod_bytes = 0;  ///< by all devices of a pod
  int level = 0;
  std::vector<LinkUse> uses;
};

/// A wire, or a bundle of them, that transfers share.
struct SharedLink {
  double capacity = 0;  ///< bytes/s, one direction
  int level = -1;       ///< of an uplink: the level it leads up to; -1: the port of a device
};

/// Pods that the network treats alike. They run in step, so one stands for all.
struct PodKind {
  std::int64_t first_pod = 0;
  std::int64_t pods = 1;
  std::vector<Transfer> forward;   ///< by part: what its forward steps wait for; none for part 0
  std::vector<Transfer> gradient;  ///< by part: what its backward steps wait for; none for the last
  std::vector<SharedLink> links;
};

/// What a part of the model computes on its stage, for one micro-batch. Collectives are included as
/// far as they do not run beside it.
struct PartWork {
  double forward_s = 0;
  double backward_s = 0;  ///< with recomputation
};

/// A plan as something that runs. Part `c·p + i` of the model is chunk `c` of stage `i` of `p`.
struct Pipeline {
  model::Schedule schedule = model::Schedule::k1F1B;
  std::int64_t stages = 1;
  std::int64_t chunks = 1;
  std::int64_t microbatches = 1;
  std::vector<PartWork> work;  ///< by part
  std::vector<PodKind> kinds;
  std::vector<double> sync_s;    ///< by stage, once per iteration
  std::vector<double> update_s;  ///< by stage: the part of it that is the optimizer's step
  std::vector<double> tie_s;     ///< by stage: exchange with the first one, once per iteration
  bool has_uplinks = true;       ///< which transfers share uplinks is known of this network
  double transfer_overlap = 0;   ///< share of a transfer that runs beside its receiver's steps

  std::int64_t parts() const { return stages * chunks; }
};

/// The pipeline of a plan with every choice made, as cost::evaluate returned it for `problem`.
///
/// *Work.* Stage times are those of cost::evaluate: each step takes as long as on the slowest
/// device and in the slowest group of any pod. Traffic of ZeRO belongs to the steps: under stage 3
/// one all-gather of the weights to each forward and one to each backward step; the reduce-scatter
/// of gradients to the backward steps. With several chunks each is costed by itself, and the
/// stage's times are divided in these proportions. Where communication runs beside computation
/// (model::Overlap), the part of it that the cost of a stage leaves out is left out of its forward
/// and backward steps in proportion to what each of them has of it.
///
/// *Transfers.* Bytes and times are those of the plan's cost, except that each pod has the level of
/// its own links, not the worst one's.
///
/// *Links.* While transfers do not meet, each has the rate that the network gives it for the
/// devices of its stage, `rate(l, u)`. They may meet
/// - in the port of a device that sends in both directions of the pipeline at once: its capacity is
///   `rate(l, 1)`; level 0 has a port of its own;
/// - in the uplink of a block, and on the way down into one: a transfer with level `l` crosses one
///   of each level `1 … l`. What is below level `l` is a run of neighbouring devices whose
///   neighbours are all nearer than `l`; the uplink of such a block of `n` devices has the capacity
///   `n·rate(l, n)`. All devices of all pods that cross it with the same transfer count, since pods
///   run in step.
///
/// A network whose levels are not those of a tree (a torus) tells nothing about uplinks; then
/// `has_uplinks` is false. Throws InvalidInput as cost::evaluate does.
///
/// Time and memory: O(devices · levels).
Pipeline build_pipeline(const model::Problem& problem, const network::Network& network,
                        const model::Plan& plan);

}  // namespace nestplan::simulate

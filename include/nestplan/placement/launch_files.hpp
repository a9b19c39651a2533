#pragma once

#include <string>
#include <vector>

#include "nestplan/placement/placement.hpp"

namespace nestplan::placement {

/// What launchers read. All texts end in a newline and have the ranks in order.

/// `rank,device,place,host,local,pod,stage,dp,cp,tp,ep,etp`, one line per rank; idle devices, with
/// an empty rank and no part in the plan, come last.
std::string csv(const Placement& placement);

/// An Open MPI rankfile (mpirun(1), "Rankfiles"): `rank 0=node1 slot=3`. The slot is the core with
/// the number of the device inside its host, so that ranks of a node do not share one. Hosts
/// without names are those of the job, in order: `+n0`.
std::string rankfile(const Placement& placement);

/// An Open MPI hostfile. Where the ranks of every host are neighbours: `node1 slots=8`, for
/// mpirun's usual order; else a line for each rank, for `mpirun --map-by seq`, and a comment that
/// says so. Throws InvalidInput for hosts without names.
std::string hostfile(const Placement& placement);

/// The file that SLURM_HOSTFILE names for `srun --distribution=arbitrary`: the host of each rank.
/// Throws InvalidInput for hosts without names.
std::string slurm_hosts(const Placement& placement);

/// The local indices of a host's devices in the order of its ranks: what CUDA_VISIBLE_DEVICES has
/// to be for local rank `i` to find its device as number `i`. One list per host of the cluster,
/// empty for a host without ranks.
std::vector<std::vector<std::int64_t>> device_order(const Placement& placement);

/// A batch script that runs its arguments on the placement's devices: `sbatch FILE python
/// train.py`.
///
/// It asks for the hosts in use (by name where they have names), places rank by rank by way of
/// SLURM_HOSTFILE and `--distribution=arbitrary` (srun(1)), sets RANK, LOCAL_RANK, WORLD_SIZE,
/// MASTER_ADDR and MASTER_PORT, and CUDA_VISIBLE_DEVICES where the ranks of a node are not in the
/// order of its devices. Where expert groups span nodes it has the `--segment` (sbatch(1), Slurm
/// 24.05 and later with topology/block) that keeps each in one block.
std::string slurm_script(const Placement& placement);

}  // namespace nestplan::placement

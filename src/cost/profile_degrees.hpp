#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/cost/profile.hpp"
#include "nestplan/model/graph.hpp"
#include "nestplan/model/model.hpp"

namespace nestplan::cost {

/// A stack of blocks, with the tokens of one sample that it sees.
struct Stack {
  const model::Architecture& a;
  std::int64_t tokens = 0;
  std::string part;  ///< "encoder's ", in front of what does not fit; empty if there is one stack
};

/// The stacks of a model in the order in which they run. A U-Net has none.
std::vector<Stack> stacks_of(const model::Model& model, const ProfileOptions& options);

/// Why attention cannot be split `cp` ways on top of `tp`; empty if it can. Of causal attention a
/// device takes two chunks of 2·cp, one from each end, so that all have the same work (Grattafiori
/// et al., Llama 3, arXiv 2407.21783, section 3.3.2). Trading heads for tokens needs heads enough;
/// those of keys and values are repeated where they are fewer. Both need attention that never has
/// all scores in one place.
std::string context_parallel_obstacle(const model::Model& model, const ProfileOptions& options,
                                      const Degrees& degrees);

/// Why every expert cannot be split `etp` ways; etp divides tp.
std::string expert_tensor_obstacle(const model::Model& model, const Degrees& degrees);

/// Why the experts cannot be dealt out `ep` ways. The copies of an expert are those of the
/// data-parallel peers: a tensor-parallel group holds none twice, so ep·etp is a multiple of tp.
std::string expert_parallel_obstacle(const model::Model& model, const Degrees& degrees);

/// All legal columns, in ascending order of (tp, cp, form, etp, ep, micro-batch). What does not fit
/// is appended to `dropped`, if given, once for every reason. Throws InvalidConfig if none is left.
std::vector<Degrees> legal_degrees(const model::Model& model, const ProfileOptions& options,
                                   std::vector<DroppedDegree>* dropped);

/// The column's strategy. Its `ep` counts members of the data-parallel group, at stride tp: the
/// experts are dealt out over `ep`·tp/etp devices of them.
model::Strategy strategy_of(const model::Model& model, const ProfileOptions& options,
                            const Degrees& degrees);

}  // namespace nestplan::cost

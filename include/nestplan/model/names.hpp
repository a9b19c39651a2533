#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nestplan/model/graph.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::model {

/// Counterparts of `to_string`. They throw InvalidInput naming what is known for any other text.
CollectiveOp parse_collective_op(std::string_view name);
Phase parse_phase(std::string_view name);
GroupKind parse_group_kind(std::string_view name);
Objective parse_objective(std::string_view name);
Schedule parse_schedule(std::string_view name);
Recompute parse_recompute(std::string_view name);
ContextForm parse_context_form(std::string_view name);
ModelKind parse_model_kind(std::string_view name);
ShardSpan parse_shard_span(std::string_view name);
Status parse_status(std::string_view name);

/// The names in the order of the enumerators.
std::vector<std::string> collective_op_names();
std::vector<std::string> phase_names();
std::vector<std::string> group_kind_names();
std::vector<std::string> objective_names();
std::vector<std::string> schedule_names();
std::vector<std::string> recompute_names();
std::vector<std::string> context_form_names();
std::vector<std::string> model_kind_names();
std::vector<std::string> shard_span_names();
std::vector<std::string> status_names();

}  // namespace nestplan::model

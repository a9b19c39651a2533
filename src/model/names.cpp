#include "nestplan/model/names.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::model {
namespace {

// in the order of the enumerators
constexpr std::array kCollectiveOps{"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
constexpr std::array kPhases{"forward", "backward"};
constexpr std::array kGroupKinds{"tp", "cp", "ep", "dp"};
constexpr std::array kObjectives{"1f1b", "paper"};
constexpr std::array kSchedules{"1f1b", "gpipe"};
constexpr std::array kContextForms{"ring", "all_to_all"};
constexpr std::array kModelKinds{"graph",
                                 "decoder",
                                 "encoder",
                                 "encoder_decoder",
                                 "multimodal",
                                 "unet",
                                 "diffusion_transformer"};
constexpr std::array kRecomputes{"none", "selective", "full"};
constexpr std::array kShardSpans{"all", "pod"};
constexpr std::array kStatuses{"optimal", "feasible", "infeasible"};

template <class Enum, std::size_t kCount>
const char* name_of(Enum value, const std::array<const char*, kCount>& names) {
  const auto index = static_cast<std::size_t>(value);
  if (index >= kCount) throw InternalError("an enumerator without a name");
  return names[index];
}

template <std::size_t kCount>
std::vector<std::string> list(const std::array<const char*, kCount>& names) {
  return {names.begin(), names.end()};
}

template <class Enum, std::size_t kCount>
Enum parse(std::string_view name, const std::array<const char*, kCount>& names, const char* what) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  const std::vector<std::string> known = list(names);
  throw InvalidInput(
      fmt::format("{} is not {} (known: {})", util::quoted(name), what, fmt::join(known, ", ")));
}

}  // namespace

const char* to_string(CollectiveOp op) { return name_of(op, kCollectiveOps); }
const char* to_string(Phase phase) { return name_of(phase, kPhases); }
const char* to_string(GroupKind group) { return name_of(group, kGroupKinds); }
const char* to_string(ContextForm form) { return name_of(form, kContextForms); }
const char* to_string(ModelKind kind) { return name_of(kind, kModelKinds); }
const char* to_string(Objective objective) { return name_of(objective, kObjectives); }
const char* to_string(Schedule schedule) { return name_of(schedule, kSchedules); }
const char* to_string(Recompute recompute) { return name_of(recompute, kRecomputes); }
const char* to_string(ShardSpan span) { return name_of(span, kShardSpans); }
const char* to_string(Status status) { return name_of(status, kStatuses); }

CollectiveOp parse_collective_op(std::string_view name) {
  return parse<CollectiveOp>(name, kCollectiveOps, "a collective");
}
Phase parse_phase(std::string_view name) { return parse<Phase>(name, kPhases, "a phase"); }
GroupKind parse_group_kind(std::string_view name) {
  return parse<GroupKind>(name, kGroupKinds, "a group of devices");
}
Objective parse_objective(std::string_view name) {
  return parse<Objective>(name, kObjectives, "an objective");
}
Schedule parse_schedule(std::string_view name) {
  return parse<Schedule>(name, kSchedules, "a schedule");
}
Recompute parse_recompute(std::string_view name) {
  return parse<Recompute>(name, kRecomputes, "a recomputation mode");
}
ContextForm parse_context_form(std::string_view name) {
  return parse<ContextForm>(name, kContextForms, "a form of context parallelism");
}
ModelKind parse_model_kind(std::string_view name) {
  return parse<ModelKind>(name, kModelKinds, "a kind of model");
}
ShardSpan parse_shard_span(std::string_view name) {
  return parse<ShardSpan>(name, kShardSpans, "a span of shards");
}
Status parse_status(std::string_view name) {
  return parse<Status>(name, kStatuses, "a plan status");
}

std::vector<std::string> collective_op_names() { return list(kCollectiveOps); }
std::vector<std::string> phase_names() { return list(kPhases); }
std::vector<std::string> group_kind_names() { return list(kGroupKinds); }
std::vector<std::string> objective_names() { return list(kObjectives); }
std::vector<std::string> schedule_names() { return list(kSchedules); }
std::vector<std::string> recompute_names() { return list(kRecomputes); }
std::vector<std::string> context_form_names() { return list(kContextForms); }
std::vector<std::string> model_kind_names() { return list(kModelKinds); }
std::vector<std::string> shard_span_names() { return list(kShardSpans); }
std::vector<std::string> status_names() { return list(kStatuses); }

}  // namespace nestplan::model

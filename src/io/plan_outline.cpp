#include <fmt/format.h>

#include "io/json.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/names.hpp"

namespace nestplan::io {
namespace {

constexpr std::int64_t kMostWhole = 9007199254740991;  // 2^53 - 1

/// What plans written by hand may leave open.
Field chosen(const Field& parent, const std::string& key) {
  if (const auto field = parent.find(key)) return *field;
  parent.fail(
      fmt::format("\"{}\" is missing, the plan leaves it open (nestplan evaluate PLAN … "
                  "-o FILE chooses it)",
                  key));
}

std::vector<std::string> read_layers(const Field& list) {
  std::vector<std::string> ids;
  for (const Field& layer : list.items()) ids.push_back(layer.text());
  return ids;
}

/// What is only asked of a plan that is to be run.
void read_settings(const Field& field, model::StageOutline& stage) {
  if (const auto recompute = field.find("recompute")) {
    stage.recompute = recompute->named(model::parse_recompute);
  }
  if (const auto zero = field.find("zero")) stage.zero = static_cast<int>(zero->integer(0, 3));
  if (const auto shard = field.find("shard")) stage.shard = shard->named(model::parse_shard_span);
  if (const auto chunks = field.find("chunks")) {
    for (const Field& chunk : chunks->items()) stage.chunks.push_back(read_layers(chunk));
  } else {
    stage.chunks.push_back(read_layers(field.at("layers")));
  }
}

model::StageOutline read_stage(const Field& field, std::int64_t dp_inner) {
  field.expect(plan_keys::kStage);
  model::StageOutline stage;
  stage.position = chosen(field, "position").integer(0, kMostDevices);
  stage.tp = chosen(field, "tp").integer(1, kMostDegree);
  stage.cp = chosen(field, "cp").integer(1, kMostDegree);
  stage.ep = chosen(field, "ep").integer(1, kMostDegree);
  const auto degrees = cost::parse_strategy_id(field.at("strategy").text());
  stage.etp = degrees ? degrees->etp : stage.tp;
  if (degrees) stage.context = degrees->context;
  read_settings(field, stage);
  const Field devices = chosen(field, "devices");
  const double unit = static_cast<double>(stage.tp * stage.cp) * static_cast<double>(dp_inner);
  if (static_cast<double>(devices.integer(1, kMostDevices)) != unit) {
    devices.fail(
        fmt::format("is {}, but tp times cp times dp_inner is {}", devices.json().dump(), unit));
  }
  return stage;
}

model::Overlap read_overlap(const Field& field) {
  field.expect(plan_keys::kOverlap);
  model::Overlap overlap;
  for (const auto& [name, share] : model::kOverlapTerms) {
    if (const auto value = field.find(name)) overlap.*share = value->number(1);
  }
  return overlap;
}

void read_degrees(const Field& field, model::PlanOutline& plan) {
  field.expect(plan_keys::kStrategy);
  plan.dp_inner = chosen(field, "dp_inner").integer(1, kMostDevices);
  plan.dp_outer = chosen(field, "dp_outer").integer(1, kMostDevices);
  if (const auto vpp = field.find("vpp")) plan.vpp = vpp->integer(1, kMostDevices);
  if (const auto size = field.find("micro_batch")) plan.micro_batch = size->integer(1, kMostDegree);
  if (const auto count = field.find("microbatches")) {
    plan.microbatches = count->integer(1, kMostWhole);
  }
  if (const auto schedule = field.find("schedule")) {
    plan.schedule = schedule->named(model::parse_schedule);
  }
  if (const auto overlap = field.find("overlap")) plan.overlap = read_overlap(*overlap);
  const std::int64_t dp = field.at("dp").integer(1, kMostDevices);
  if (plan.dp() == dp) return;  // both factors are below 2^31
  field.at("dp").fail(fmt::format("is {}, but dp_inner times dp_outer is {}", dp, plan.dp()));
}

/// Sequences of an iteration, and tokens of each where the plan tells them.
void read_batch(const Field& field, model::PlanOutline& plan) {
  field.expect(plan_keys::kBatch);
  const auto sequences = field.find("global_batch");
  if (!sequences || sequences->is_null()) return;
  plan.global_batch = sequences->integer(1, kMostWhole);
  const auto tokens = field.find("tokens");
  if (!tokens || tokens->is_null()) return;
  const std::int64_t all = tokens->integer(1, kMostWhole);
  if (all % *plan.global_batch == 0) plan.tokens = all / *plan.global_batch;
}

model::PlanOutline to_outline(const Document& document) {
  const Field root = document.root_of(kPlanFormat);
  root.expect(plan_keys::kPlan);
  model::PlanOutline plan;
  if (const auto status = root.find("status")) plan.status = status->named(model::parse_status);
  if (const auto reason = root.find("reason")) plan.reason = reason->text();
  if (const auto name = root.find("model")) plan.model = name->text();
  if (const auto devices = root.find("devices")) {
    devices->expect(plan_keys::kDevices);
    const auto total = devices->find("total");
    if (total && !total->is_null()) plan.devices = total->integer(1, kMostDevices);
  }
  if (plan.status == model::Status::kInfeasible) return plan;
  read_degrees(root.at("strategy"), plan);
  if (const auto batch = root.find("batch")) read_batch(*batch, plan);
  const Field stages = root.at("stages");
  for (const Field& stage : stages.items()) plan.stages.push_back(read_stage(stage, plan.dp_inner));
  if (plan.stages.empty()) stages.fail("must have at least one stage (this is not a plan)");
  return plan;
}

}  // namespace

model::PlanOutline read_plan_outline(const std::filesystem::path& path) {
  return to_outline(Document::read(path));
}

model::PlanOutline parse_plan_outline(std::string_view text, const std::string& file) {
  return to_outline(Document(text, file));
}

}  // namespace nestplan::io

#include "frameworks/plans.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nestplan::testing {
namespace {

using frameworks::Recipe;

model::NetworkLevel level(const char* name, std::int64_t fanout) {
  model::NetworkLevel level;
  level.name = name;
  level.fanout = fanout;
  level.bandwidth = 100e9;
  level.latency_s = 1e-6;
  return level;
}

model::TorusDimension dimension(const char* name, std::int64_t size, bool switched) {
  model::TorusDimension dimension;
  dimension.name = name;
  dimension.size = size;
  dimension.bandwidth = 50e9;
  dimension.latency_s = 1e-6;
  dimension.switched = switched;
  return dimension;
}

model::Cluster named_cluster(std::int64_t devices) {
  model::Cluster cluster;
  cluster.name = fmt::format("c{}", devices);
  cluster.device.name = "d";
  cluster.device.memory_bytes = 80e9;
  return cluster;
}

/// Layers of the parts: equally many, or not.
std::vector<std::int64_t> random_parts(Dice& dice, std::int64_t pp, std::int64_t vpp) {
  const std::int64_t each = dice.between(1, 3);
  std::vector<std::int64_t> parts(static_cast<std::size_t>(pp * vpp), each);
  if (dice.chance(60)) return parts;
  if (dice.chance(50)) {
    parts.front() = dice.between(1, 3);
    parts.back() = dice.between(1, 3);
  } else {
    for (std::int64_t& part : parts) part = dice.between(1, 4);
  }
  return parts;
}

void vary_stages(Dice& dice, model::PlanOutline& plan) {
  for (model::StageOutline& stage : plan.stages) {
    if (dice.chance(50)) stage.zero = static_cast<int>(dice.between(0, 3));
    if (dice.chance(50))
      stage.recompute = dice.pick({model::Recompute::kNone, model::Recompute::kFull});
  }
}

}  // namespace

model::PlanOutline plan_of(const Shape& shape, const std::vector<std::int64_t>& layers,
                           std::int64_t predictions) {
  model::PlanOutline plan;
  plan.model = "m";
  plan.dp_inner = shape.dp_inner;
  plan.dp_outer = shape.dp_outer;
  plan.vpp = shape.vpp;
  plan.schedule = model::Schedule::k1F1B;
  plan.micro_batch = shape.micro_batch;
  plan.microbatches = shape.microbatches;
  plan.global_batch = plan.dp() * shape.micro_batch * shape.microbatches;
  plan.tokens = shape.tokens;
  const std::size_t pp = layers.size() / static_cast<std::size_t>(shape.vpp);
  plan.stages.resize(pp);
  std::int64_t position = 0;
  for (model::StageOutline& stage : plan.stages) {
    stage.position = position;
    stage.tp = shape.tp;
    stage.cp = shape.cp;
    stage.ep = shape.ep;
    stage.etp = shape.etp.value_or(shape.tp);
    stage.zero = shape.zero;
    stage.recompute = shape.recompute;
    position += shape.tp * shape.cp * shape.dp_inner;
  }
  std::int64_t next = 0;
  for (std::size_t part = 0; part < layers.size(); ++part) {
    std::vector<std::string>& ids = plan.stages[part % pp].chunks.emplace_back();
    if (part == 0) ids.emplace_back("embedding");
    for (std::int64_t i = 0; i < layers[part]; ++i) ids.push_back(fmt::format("layer.{}", next++));
    if (part + 1 < layers.size()) continue;
    for (std::int64_t i = 0; i < predictions; ++i) ids.push_back(fmt::format("mtp.{}", i));
    ids.emplace_back("head");
  }
  return plan;
}

model::Cluster cluster_of(std::int64_t nodes, std::int64_t per_node) {
  model::Cluster cluster = named_cluster(nodes * per_node);
  model::HierarchySpec network;
  network.levels = {level("node", per_node), level("leaf", nodes)};
  cluster.network = network;
  return cluster;
}

model::Cluster torus_of(std::int64_t slices, std::int64_t x, std::int64_t y) {
  model::Cluster cluster = named_cluster(slices * x * y);
  model::TorusSpec torus;
  torus.dimensions = {dimension("x", x, false), dimension("y", y, false)};
  torus.host = {1, 1};
  if (slices > 1) {
    torus.dimensions.push_back(dimension("slice", slices, true));
    torus.host.push_back(1);
  }
  cluster.network = torus;
  return cluster;
}

Recipe expected_recipe(const Case& from) {
  const model::PlanOutline& plan = from.plan;
  const model::StageOutline& stage = plan.stages.front();
  Recipe r;
  r.tp = stage.tp;
  r.cp = stage.cp;
  r.etp = stage.etp;
  r.ep = stage.ep * (stage.tp / stage.etp);
  r.pp = std::ssize(plan.stages);
  r.dp = plan.dp_inner * plan.dp_outer;
  r.micro_batch = *plan.micro_batch;
  r.global_batch = r.dp * r.micro_batch * *plan.microbatches;
  r.sequence = *plan.tokens;
  r.sequence_parallel = r.tp > 1 && from.job.sequence_parallel;
  if (r.cp > 1) r.context = stage.context;
  r.recompute = *stage.recompute;
  r.precision = from.job.precision;
  const bool pods = stage.shard == model::ShardSpan::kPod;
  const bool whole = r.cp == 1 && (pods ? plan.dp_inner : r.dp) == 1;
  if (!whole) r.zero = *stage.zero;
  if (r.zero > 0 && pods) r.shard_groups = plan.dp_outer;
  if (r.pp > 1) {
    r.vpp = plan.vpp;
    r.schedule = *plan.schedule;
    r.order = from.order;
  }
  const model::Overlap& overlap = plan.overlap;
  const bool copies = r.dp * r.cp > 1;
  r.hidden.tensor = overlap.tensor > 0 && r.tp > 1;
  r.hidden.context = overlap.context > 0 && r.cp > 1 && stage.context == model::ContextForm::kRing;
  r.hidden.expert = overlap.expert > 0 && r.ep > 1;
  r.hidden.shards = overlap.shards > 0 && copies && r.zero >= 2;
  r.hidden.sync = overlap.sync > 0 && copies;
  r.hidden.pipeline = overlap.pipeline > 0 && r.vpp > 1;
  r.layout.resize(static_cast<std::size_t>(r.pp * r.vpp));
  for (std::size_t part = 0; part < r.layout.size(); ++part) {
    const auto pp = static_cast<std::size_t>(r.pp);
    for (const std::string& id : plan.stages[part % pp].chunks[part / pp]) {
      targets::LayoutPart& held = r.layout[part];
      held.embedding = held.embedding || id == "embedding";
      held.loss = held.loss || id == "head";
      held.layers += id.starts_with("layer.") ? 1 : 0;
      held.predictions += id.starts_with("mtp.") ? 1 : 0;
    }
  }
  return r;
}

Case random_case(Dice& dice, bool torus) {
  Case out;
  Shape shape;
  shape.tp = dice.pick({1, 2, 4});
  shape.cp = dice.pick({1, 1, 1, 2});
  shape.dp_inner = dice.pick({1, 2, 4});
  shape.dp_outer = dice.pick({1, 1, 2, 4});
  const std::int64_t pp = dice.pick(torus ? std::vector<std::int64_t>{1, 1, 2, 4}
                                          : std::vector<std::int64_t>{1, 2, 3, 4});
  shape.vpp = pp > 1 && dice.chance(30) ? dice.between(2, 3) : 1;
  shape.micro_batch = dice.pick({1, 1, 2});
  shape.microbatches = dice.pick({pp, 2 * pp, 4 * pp, 5 * pp, std::int64_t{3}});
  shape.zero = static_cast<int>(dice.between(0, 3));
  shape.recompute =
      dice.pick({model::Recompute::kNone, model::Recompute::kSelective, model::Recompute::kFull});
  if (dice.chance(25)) {
    shape.ep = dice.pick({1, 2});
    if (shape.cp * shape.dp_inner % shape.ep != 0) shape.ep = 1;
    if (dice.chance(50)) shape.etp = 1;
  }
  out.plan = plan_of(shape, random_parts(dice, pp, shape.vpp), dice.chance(10) ? 1 : 0);
  if (dice.chance(15)) vary_stages(dice, out.plan);
  if (dice.chance(10)) out.plan.schedule = model::Schedule::kGPipe;
  const auto shard =
      dice.pick({model::ShardSpan::kAll, model::ShardSpan::kAll, model::ShardSpan::kPod});
  const auto form = dice.pick({model::ContextForm::kRing, model::ContextForm::kAllToAll});
  for (model::StageOutline& stage : out.plan.stages) {
    stage.shard = shard;
    if (stage.cp > 1) stage.context = form;
  }
  const std::int64_t ranks = shape.tp * shape.cp * pp * out.plan.dp();
  if (torus) {
    const std::int64_t slices = ranks % 2 == 0 ? dice.pick({1, 2}) : 1;
    out.cluster = torus_of(slices, ranks / slices, 1);
    out.job.slices = slices;
  } else {
    out.cluster = cluster_of(ranks, dice.pick({1, 2}));
    if (pp > 1 && shape.ep == shape.cp && dice.chance(10)) {
      out.order = placement::RankOrder::kDataLast;
    }
  }
  out.job.model = "m";
  out.job.devices = out.cluster.devices();
  if (dice.chance(50)) {
    for (const auto& [name, share] : model::kOverlapTerms) {
      out.plan.overlap.*share = dice.pick({0.0, 0.5, 1.0});
    }
  }
  out.job.precision =
      dice.pick<std::string>({"bf16", "bf16", "fp16", "fp8", "mxfp8", "fp32", "tf32"});
  out.job.sequence_parallel = dice.chance(80);
  return out;
}

}  // namespace nestplan::testing

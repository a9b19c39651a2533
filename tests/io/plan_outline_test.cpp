#include <gtest/gtest.h>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::Json;

Json sample() {
  const auto stage = [](const char* strategy, int ep, int position) {
    return Json{{"layers", {"a"}}, {"strategy", strategy}, {"tp", 4},      {"cp", 2},
                {"ep", ep},        {"position", position}, {"devices", 24}};
  };
  return {{"format", "nestplan.plan/1"},
          {"status", "optimal"},
          {"model", "m"},
          {"devices", {{"total", 100}}},
          {"strategy", {{"dp", 6}, {"dp_inner", 3}, {"dp_outer", 2}}},
          {"stages", {stage("tp4-cp2-ep8-etp2-mb1", 4, 0), stage("mine", 1, 24)}}};
}

model::PlanOutline outline_of(const Json& plan) { return parse_plan_outline(plan.dump(), "p"); }

void expect_refused(const Json& plan, const std::string& message) {
  test::expect_contains(test::message_of([&] { outline_of(plan); }), message);
}

TEST(PlanOutline, IsReadWithoutTheGraph) {
  const model::PlanOutline plan = outline_of(sample());
  EXPECT_EQ(plan.model, "m");
  EXPECT_EQ(plan.devices, 100);
  EXPECT_EQ(plan.dp_inner, 3);
  EXPECT_EQ(plan.dp(), 6);
  std::vector<model::StageOutline> stages{{0, 4, 2, 4, 2}, {24, 4, 2, 1, 4}};
  for (model::StageOutline& stage : stages) stage.chunks = {{"a"}};
  EXPECT_EQ(plan.stages, stages);
}

TEST(PlanOutline, SaysWhatIsNeededToRunThePlan) {
  Json plan = sample();
  plan["batch"] = {{"global_batch", 96}, {"tokens", 96 * 512}};
  plan["strategy"].update(
      {{"vpp", 2}, {"micro_batch", 2}, {"microbatches", 8}, {"schedule", "gpipe"}});
  Json& stage = plan["stages"][0];
  stage.update({{"strategy", "tp4-cp2a2a-mb2"},
                {"recompute", "full"},
                {"zero", 3},
                {"shard", "pod"},
                {"layers", {"a", "b"}},
                {"chunks", {{"a"}, {"b"}}}});
  const model::PlanOutline read = outline_of(plan);
  EXPECT_EQ(read.vpp, 2);
  EXPECT_EQ(read.micro_batch, 2);
  EXPECT_EQ(read.microbatches, 8);
  EXPECT_EQ(read.schedule, model::Schedule::kGPipe);
  EXPECT_EQ(read.global_batch, 96);
  EXPECT_EQ(read.tokens, 512);
  EXPECT_EQ(read.stages[0].context, model::ContextForm::kAllToAll);
  EXPECT_EQ(read.stages[0].recompute, model::Recompute::kFull);
  EXPECT_EQ(read.stages[0].zero, 3);
  EXPECT_EQ(read.stages[0].shard, model::ShardSpan::kPod);
  EXPECT_EQ(read.stages[0].chunks, (std::vector<std::vector<std::string>>{{"a"}, {"b"}}));
  EXPECT_FALSE(read.stages[1].recompute);
  EXPECT_FALSE(read.stages[1].zero);
}

TEST(PlanOutline, OfAnInfeasiblePlanIsTheReason) {
  const model::PlanOutline plan = outline_of({{"format", "nestplan.plan/1"},
                                              {"status", "infeasible"},
                                              {"reason", "too large"},
                                              {"strategy", nullptr},
                                              {"stages", Json::array()}});
  EXPECT_EQ(plan.status, model::Status::kInfeasible);
  EXPECT_EQ(plan.reason, "too large");
}

TEST(PlanOutline, NothingMayBeLeftOpen) {
  for (const char* key : {"tp", "cp", "ep", "position", "devices"}) {
    Json plan = sample();
    plan["stages"][1].erase(key);
    expect_refused(plan, std::string("stages[1]: \"") + key + "\" is missing");
  }
  Json plan = sample();
  plan["strategy"].erase("dp_outer");
  expect_refused(plan, "strategy: \"dp_outer\" is missing");
}

TEST(PlanOutline, WhatIsRedundantMustAgree) {
  Json plan = sample();
  plan["stages"][0]["devices"] = 8;
  expect_refused(plan, "stages[0].devices: is 8, but tp times cp times dp_inner is 24");
  plan = sample();
  plan["strategy"]["dp"] = 5;
  expect_refused(plan, "strategy.dp: is 5, but dp_inner times dp_outer is 6");
  plan = sample();
  plan["stages"] = Json::array();
  expect_refused(plan, "stages: must have at least one stage");
  plan = sample();
  plan["stages"][0]["positon"] = 3;
  expect_refused(plan, "positon");
}

}  // namespace
}  // namespace nestplan::io

// Frameworks' rules, seen from the command line.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cases/command_cases.hpp"

namespace nestplan::cases {
namespace {

class TargetCommand : public CommandCase {};

std::set<std::int64_t> degrees(const Json& plan, const char* key) {
  std::set<std::int64_t> values;
  for (const Json& stage : plan.at("stages")) values.insert(stage.at(key).get<std::int64_t>());
  return values;
}

std::int64_t layers_of(const Json& plan) {
  std::int64_t count = 0;
  for (const Json& stage : plan.at("stages")) {
    for (const Json& id : stage.at("layers")) {
      count += id.get<std::string>().starts_with("layer.") ? 1 : 0;
    }
  }
  return count;
}

// V02 — deepspeedai/DeepSpeed issue 3634
TEST_F(TargetCommand, CaseV02FiftyTwoHeadsOnANodeOfEight) {
  Json model = llama(60, 6656, 52);
  model["intermediate_size"] = 17920;
  write_json("model.json", model);
  write_json("machine.json", cluster({{8, "450 GB/s"}}, "141 GB"));
  const Json best = planned("model", 64);
  EXPECT_EQ(best.at("devices").at("used"), 8);
  for (const int tp : {1, 2, 4}) {
    const Json plan = planned("model", 64, {"--tp", std::to_string(tp)});
    EXPECT_EQ(degrees(plan, "tp"), std::set<std::int64_t>{tp});
    EXPECT_EQ(plan.at("devices").at("used"), 8);
    EXPECT_LE(best.at("iteration_time_s"), plan.at("iteration_time_s"));
  }
  const Outcome whole = run(plan("model", 64, {"--tp", "8"}));
  EXPECT_EQ(whole.exit_code, 2);
  EXPECT_TRUE(has(whole.err, "tp 8 does not divide the attention heads (52)"));
  const Outcome remark = run(plan("model", 64));
  EXPECT_TRUE(has(remark.err, "tp 8 is left out"));
}

TEST_F(TargetCommand, CaseV02OnlyDivisorsOfTheHeadsAreUsed) {
  write_json("machine.json", cluster({{16, "450 GB/s"}}));
  for (const int heads : {6, 10, 12, 20, 28}) {
    write_json("model.json", llama(4, 64 * heads, heads));
    for (int tp = 1; tp <= 16; ++tp) {
      const Outcome outcome = run(plan(
          "model", 16, {"--json", "-q", "--no-sequence-parallel", "--tp", std::to_string(tp)}));
      ASSERT_EQ(outcome.exit_code, heads % tp == 0 ? 0 : 2) << heads << " " << tp << outcome.err;
    }
  }
}

// V03 — NVIDIA/Megatron-LM pull request 823
TEST_F(TargetCommand, CaseV03ThirtyLayersForMegatron) {
  write_json("model.json", llama(30));
  write_json("machine.json", cluster({{4, "450 GB/s"}}));
  const Words four{"--pp", "4", "--target", "megatron", "--micro-batch", "1"};
  const Json plan = planned("model", 64, four + Words{"--stage-layers", "first-last"});
  EXPECT_EQ(layers_of(plan), 30);
  const int first = std::stoi(value_of(plan, "decoder_first_pipeline_num_layers"));
  const int last = std::stoi(value_of(plan, "decoder_last_pipeline_num_layers"));
  EXPECT_EQ((30 - first - last) % 2, 0);
  EXPECT_LE(std::max({first, last, (30 - first - last) / 2}), 8) << first << " " << last;

  const Outcome even =
      run(this->plan("model", 64, four + Words{"--stage-layers", "even", "--json"}));
  EXPECT_EQ(even.exit_code, 3);
  EXPECT_TRUE(has(Json::parse(even.out).at("reason"), "30"));
}

// P01 — a layout that no pair of numbers says is written out, and counts its layers
TEST_F(TargetCommand, CaseP01UnevenStagesAreWrittenOutForMegatron) {
  write_json("model.json", llama(23, 512, 8, 256000));
  write_json("machine.json", cluster({{4, "450 GB/s"}}));
  const Words four{"--pp", "4", "--target", "megatron", "--micro-batch", "1"};
  const Json plan = planned("model", 64, four);
  EXPECT_EQ(layers_of(plan), 23);
  const std::string layout = value_of(plan, "pipeline_model_parallel_layout");
  const bool pair = !value_of(plan, "decoder_first_pipeline_num_layers").empty();
  EXPECT_NE(layout.empty(), !pair) << "one of the two says it";
  // two chunks of each stage, not all equal: the sum of 23 is odd
  const Json chunked = planned("model", 64, four + Words{"--vpp", "2"});
  EXPECT_TRUE(has(value_of(chunked, "pipeline_model_parallel_layout"), "|"));
  EXPECT_TRUE(value_of(chunked, "pipeline_model_parallel_layout").starts_with("E"));
}

// V05 — NVIDIA/Megatron-LM issue 1778
TEST_F(TargetCommand, CaseV05OneStageHasNoNumbersAndAllLayers) {
  write_json("model.json", llama(20));
  write_json("machine.json", cluster({{1, "450 GB/s"}}));
  const Json plan = planned("model", 64, {"--target", "megatron", "-o", path("plan.json")});
  EXPECT_EQ(layers_of(plan), 20);
  for (const Json& setting : plan.at("target").at("settings")) {
    EXPECT_FALSE(has(setting.at("key"), "num_layers")) << setting;
  }
  const Outcome again = run({"evaluate", path("plan.json"), "--model", path("model.json"),
                             "--cluster", path("machine.json"), "--global-batch", "64", "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(layers_of(Json::parse(again.out)), 20);
}

// V07 — NVIDIA/Megatron-LM issue 750
TEST_F(TargetCommand, CaseV07InterleavingOverTwoStagesComesWithOverlap) {
  write_json("model.json", llama(8));
  write_json("machine.json", cluster({{2, "450 GB/s"}}));
  const Words two{"--target", "megatron", "--pp", "2"};
  for (const int chunks : {1, 2, 4}) {
    const Json plan = planned("model", 64, two + Words{"--vpp", std::to_string(chunks)});
    EXPECT_EQ(plan.at("strategy").at("vpp"), chunks);
    EXPECT_EQ(value_of(plan, "num_virtual_stages_per_pipeline_rank"),
              chunks > 1 ? std::to_string(chunks) : "");
    EXPECT_EQ(value_of(plan, "overlap_p2p_comm"), chunks > 1 ? "true" : "");
  }
  const Words forbidden = two + Words{"--no-transfer-overlap"};
  EXPECT_EQ(planned("model", 64, forbidden + Words{"--vpp", "1,2"}).at("strategy").at("vpp"), 1);
  const Words common{"plan",
                     "--model",
                     path("model.json"),
                     "--cluster",
                     path("machine.json"),
                     "--global-batch",
                     "64",
                     "--vpp",
                     "2"};
  const Outcome none = run(common + forbidden + Words{"--json"});
  EXPECT_EQ(none.exit_code, 3) << none.err;
  EXPECT_TRUE(has(none.out, "vpp 2 with pp 2"));
}

// V08 — epfLLM/Megatron-LLM issue 103: the shape of the tables is part of the plan
TEST_F(TargetCommand, CaseV08PaddedRowsAreInThePlan) {
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  const std::map<int, std::vector<int>> padded{{50257, {50304, 50432, 50688, 51200}},
                                               {151669, {151680, 151808, 152064, 152576}},
                                               {51200, {51200, 51200, 51200, 51200}}};
  for (const auto& [vocabulary, rows] : padded) {
    write_json("model.json", llama(4, 512, 8, vocabulary));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Json plan = planned("model", 16, {"--tp", std::to_string(1 << i)});
      EXPECT_EQ(plan.at("vocabulary").at("rows"), vocabulary);
      EXPECT_EQ(plan.at("vocabulary").at("padded_rows"), rows[i]) << (1 << i);
    }
  }
}

// V09 — deepspeedai/DeepSpeed pull request 8395
TEST_F(TargetCommand, CaseV09BatchesMultiplyOutOverCopies) {
  write_json("model.json", llama());
  write_json("machine.json", cluster({{8, "450 GB/s"}, {2, "50 GB/s"}}));
  const Words four{"--tp", "4", "--pp", "1", "--dp", "4", "--target", "deepspeed"};
  for (const int micro_batch : {4, 8}) {
    const Json plan =
        planned("model", 64, four + Words{"--micro-batch", std::to_string(micro_batch)});
    EXPECT_EQ(plan.at("strategy").at("dp"), 4);
    EXPECT_EQ(value_of(plan, "train_batch_size"), "64");
    EXPECT_EQ(value_of(plan, "train_micro_batch_size_per_gpu"), std::to_string(micro_batch));
    EXPECT_EQ(value_of(plan, "gradient_accumulation_steps"), std::to_string(16 / micro_batch));
  }
}

TEST_F(TargetCommand, CaseV09ABatchThatDoesNotMultiplyOutNamesItsNeighbours) {
  write_json("model.json", llama());
  write_json("machine.json", cluster({{8, "450 GB/s"}, {8, "50 GB/s"}}));
  const Words degrees{"--tp", "4", "--pp", "2", "--cp", "2", "--dp", "4", "--micro-batch", "2"};
  const Outcome outcome = run(plan("model", 30, degrees + Words{"--json"}));
  EXPECT_EQ(outcome.exit_code, 3);
  const std::string reason = Json::parse(outcome.out).at("reason");
  EXPECT_TRUE(has(reason, "30"));
  EXPECT_TRUE(has(reason, "24"));
  EXPECT_TRUE(has(reason, "32"));
  for (const int batch : {24, 32}) {
    EXPECT_EQ(planned("model", batch, degrees).at("strategy").at("microbatches"), batch / 8);
  }
}

// V11, V12 — experts: ETP is always written, and EP divides experts and ranks
TEST_F(TargetCommand, CaseV11ExpertTensorDegreesAreAlwaysWritten) {
  write_json("model.json", mixture(8));
  write_json("machine.json", cluster({{4, "450 GB/s"}}));
  const Words halves{"--target", "megatron", "--tp", "2", "--pp", "2", "--ep", "2"};
  const Outcome inherited = run(plan("model", 16, halves + Words{"--json"}));
  EXPECT_EQ(inherited.exit_code, 3) << inherited.err;
  const Json plan = planned("model", 16, halves + Words{"--etp", "1"});
  EXPECT_EQ(value_of(plan, "expert_tensor_parallel_size"), "1");
  const Json alone = planned("model", 16, {"--target", "megatron", "--tp", "2", "--ep", "1"});
  EXPECT_EQ(value_of(alone, "expert_tensor_parallel_size"), "2") << "inherited, and written";
}

TEST_F(TargetCommand, CaseV12ExpertDegreesDivideExpertsAndRanks) {
  write_json("model.json", mixture(60));
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  const Words degrees{"--target", "torchtitan", "--tp",  "2", "--dp",   "4",
                      "--pp",     "1",          "--etp", "1", "--json", "-q"};
  for (const auto& [ep, taken] :
       {std::pair{1, false}, {2, true}, {3, false}, {4, true}, {8, false}}) {
    const Outcome outcome = run(plan("model", 16, degrees + Words{"--ep", std::to_string(ep)}));
    EXPECT_EQ(outcome.exit_code == 0, taken) << ep << outcome.err << outcome.out;
    if (outcome.exit_code == 0) {
      EXPECT_EQ(value_of(Json::parse(outcome.out), "parallelism.expert_parallel_degree"),
                std::to_string(ep));
    }
  }
}

// V14 — verl-project/verl issue 1226: heads that are traded for tokens
TEST_F(TargetCommand, CaseV14TradedHeadsMayRepeatKvHeads) {
  Json model = llama(2, 2560, 40);
  model["num_key_value_heads"] = 8;
  write_json("model.json", model);
  write_json("machine.json", cluster({{40, "450 GB/s"}}));
  std::set<int> taken;
  for (const int cp : {1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 40}) {
    const Outcome outcome =
        run(plan("model", 4,
                 {"--target", "deepspeed", "--context-form", "all_to_all", "--tp", "1", "--pp", "1",
                  "--dp", "1", "--seq", "9600", "-q", "--cp", std::to_string(cp)}));
    if (outcome.exit_code == 0) taken.insert(cp);
  }
  EXPECT_EQ(taken, (std::set<int>{1, 2, 4, 8, 40}));
}

// V15 — deepspeedai/DeepSpeed issue 1629
TEST_F(TargetCommand, CaseV15PipelinesAndShardedGradientsExcludeEachOther) {
  write_json("model.json", llama(16));
  write_json("machine.json", cluster({{8, "450 GB/s"}, {2, "50 GB/s"}}));
  for (const int pp : {1, 2, 4, 8}) {
    for (const int zero : {0, 1, 2, 3}) {
      const Outcome outcome = run(plan("model", 64,
                                       {"--target", "deepspeed", "--json", "-q", "--pp",
                                        std::to_string(pp), "--zero", std::to_string(zero)}));
      ASSERT_EQ(outcome.exit_code, pp > 1 && zero >= 2 ? 3 : 0) << pp << " " << zero;
      const Json plan = Json::parse(outcome.out);
      if (outcome.exit_code != 0) {
        const std::string reason = plan.at("reason");
        EXPECT_TRUE(has(reason, "deepspeed rule zero-stages: ZeRO 2 and 3 need pp 1."));
        EXPECT_TRUE(has(reason, "ZeRO " + std::to_string(zero) + " with pp " + std::to_string(pp) +
                                    "; nearest: ZeRO 1, or pp 1"));
        EXPECT_FALSE(has(reason, "least change")) << "no other option would do";
        EXPECT_TRUE(has(plan.at("search").dump(), "deepspeed rule zero-stages"));
        continue;
      }
      EXPECT_EQ(value_of(plan, "no_pipeline_parallel"), zero >= 2 ? "true" : "");
      EXPECT_EQ(value_of(plan, "zero_optimization.stage"), std::to_string(zero));
    }
  }
}

TEST_F(TargetCommand, CaseV15StagesThatDoNotHoldAllLayersAreTheRuleLayers) {
  write_json("model.json", llama(16));
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  const Outcome three = run(plan("model", 64, {"--target", "deepspeed", "--json", "--pp", "3"}));
  EXPECT_EQ(three.exit_code, 3);
  EXPECT_TRUE(has(three.out, "deepspeed rule layers"));
  EXPECT_TRUE(has(three.out, "16 layers over pp 3"));
  EXPECT_TRUE(has(three.out, "nearest: pp 2 or 4"));
  EXPECT_FALSE(has(three.out, "--stage-layers first-last")) << "it does not know that layout";
  const Json some = planned("model", 64, {"--target", "deepspeed"});
  EXPECT_FALSE(has(some.at("search").dump(), "holds the layers so"))
      << "numbers of layers that go with no depth are nothing that was left out";
}

// a plan of any target, or of none, is held against the rules of the one that is asked for
TEST_F(TargetCommand, CaseV15PlansThatOtherFrameworksCannotRunAreRefusedByRule) {
  write_json("model.json", llama(16));
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  const auto judged = [&](const Words& made, const Words& asked) {
    planned("model", 64, Words{"--pp", "2", "-q", "-o", path("plan.json")} + made);
    return run(Words{"evaluate", path("plan.json"), "--model", path("model.json"), "--cluster",
                     path("machine.json"), "--global-batch", "64", "--json"} +
               asked);
  };
  for (const char* target : {"deepspeed", "megatron", "torchtitan"}) {
    const Outcome sharded = judged({"--zero", "2", "--dp", "2"}, {"--target", target});
    EXPECT_EQ(sharded.exit_code, 3) << target;
    const std::string reason = Json::parse(sharded.out).at("reason");
    EXPECT_TRUE(has(reason, target + std::string(" rule zero-stages")));
    EXPECT_TRUE(has(reason, "(ZeRO 2 with pp 2; nearest: ZeRO 1"));
    EXPECT_FALSE(Json::parse(sharded.out).at("stages").empty()) << "it is shown all the same";
  }
  EXPECT_EQ(judged({"--zero", "2"}, {}).exit_code, 0);
  const Outcome gpipe = judged({"--schedule", "gpipe", "--zero", "0"}, {"--target", "megatron"});
  EXPECT_EQ(gpipe.exit_code, 3);
  EXPECT_TRUE(has(gpipe.out, "megatron rule schedule"));
  EXPECT_TRUE(has(gpipe.out, "schedule gpipe over pp 2; nearest: 1f1b"));
  const Words uneven{"--first-stage-layers", "7", "--zero", "0", "--recompute", "none"};
  const Outcome layers = judged(uneven, {"--target", "deepspeed"});
  EXPECT_EQ(layers.exit_code, 3);
  EXPECT_TRUE(has(layers.out, "deepspeed rule even-stages"));
  EXPECT_EQ(judged(uneven, {"--target", "megatron"}).exit_code, 0);
}

TEST_F(TargetCommand, CaseV15PlansOfATargetAreHeldToBeItsOwn) {
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  for (const Json& model : {llama(16), llama(6), mixture(8)}) {
    write_json("model.json", model);
    for (const char* target : {"deepspeed", "megatron", "torchtitan"}) {
      for (const Words& more : {Words{}, Words{"--pp", "2"}, Words{"--pp", "2", "--vpp", "2"},
                                Words{"--tp", "2", "--schedule", "gpipe"}}) {
        const Outcome made = run(plan(
            "model", 64, Words{"--target", target, "--json", "-q", "-o", path("p.json")} + more));
        if (made.exit_code == 3) continue;
        ASSERT_EQ(made.exit_code, 0) << made.err;
        const Outcome again = run({"evaluate", path("p.json"), "--model", path("model.json"),
                                   "--cluster", path("machine.json"), "--global-batch", "64"});
        EXPECT_EQ(again.exit_code, 0) << target << again.out;
      }
    }
  }
}

TEST_F(TargetCommand, CaseV15WhatAPlanLeavesOpenIsWhatItsTargetCanRun) {
  write_json("model.json", llama(16));
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  Json plan =
      planned("model", 64, {"--pp", "2", "--dp", "4", "--zero", "1", "--target", "megatron"});
  for (Json& stage : plan["stages"]) {
    stage.erase("zero");
    stage.erase("recompute");
  }
  write_json("plan.json", plan);
  const Outcome outcome =
      run({"evaluate", path("plan.json"), "--model", path("model.json"), "--cluster",
           path("machine.json"), "--global-batch", "64", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_EQ(degrees(Json::parse(outcome.out), "zero").size(), 1U);
  const Outcome free =
      run({"evaluate", path("plan.json"), "--model", path("model.json"), "--cluster",
           path("machine.json"), "--global-batch", "64", "--json", "--target", "any"});
  EXPECT_EQ(degrees(Json::parse(free.out), "zero").size(), 2U) << "where the fastest differ";
}

TEST_F(TargetCommand, CaseV15AModelThatNeedsShardedGradientsHasNoPipeline) {
  // 1.6 B parameters: 29 GB of state, 12 GB of it on each of 16 devices unless gradients are
  // shared
  write_json("model.json", llama(24, 2048, 16));
  write_json("machine.json", cluster({{8, "450 GB/s"}, {2, "50 GB/s"}}, "12 GB"));
  const Words only{"--target", "deepspeed", "--tp", "1", "--micro-batch", "1"};
  const Json plan = planned("model", 64, only + Words{"--pp", "1"});
  EXPECT_GE(*degrees(plan, "zero").begin(), 2);
  EXPECT_EQ(value_of(plan, "no_pipeline_parallel"), "true");
  const Json any = planned("model", 64, only);
  EXPECT_TRUE(any.at("strategy").at("pp") == 1 || *degrees(any, "zero").rbegin() <= 1);
}

// V17 — pytorch/torchtitan pull request 784
TEST_F(TargetCommand, CaseV17PipelinesHaveAsManyMicroBatchesAsStages) {
  write_json("graph.json", chain({1, 1, 1}));
  write_json("machine.json", cluster({{3, "450 GB/s"}}));
  Json graph = chain({1, 1, 1});
  graph["strategies"].clear();
  for (const int size : {4, 2, 1}) {  // 2, 4 and 8 micro-batches of a batch of 8
    const std::string id = "mb" + std::to_string(size);
    graph["strategies"].push_back({{"id", id}, {"tp", 1}, {"micro_batch", size}});
    for (Json& layer : graph["layers"]) {
      layer["costs"][id] =
          layer["costs"].contains("one") ? layer["costs"]["one"] : layer["costs"].begin().value();
    }
  }
  for (Json& layer : graph["layers"]) layer["costs"].erase("one");
  write_json("graph.json", graph);
  for (const std::string& schedule : {std::string("1f1b"), std::string("gpipe")}) {
    for (const int size : {4, 2, 1}) {
      const Outcome outcome =
          run(plan("graph", 8,
                   {"--target", "torchtitan", "--pp", "3", "--dp", "1", "--precision", "fp32",
                    "--schedule", schedule, "--micro-batch", std::to_string(size), "--json"}));
      const bool refused = schedule == "1f1b" && size == 4;
      EXPECT_EQ(outcome.exit_code, refused ? 3 : 0) << schedule << " " << size << outcome.out;
    }
  }
}

// V18 — NVIDIA/Megatron-LM issue 1587, NVIDIA-NeMo/Speech pull request 8869
TEST_F(TargetCommand, CaseV18ExpertsTurnSequenceParallelismOn) {
  write_json("model.json", mixture(8));
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  const Words two{"--target", "megatron", "--tp", "2", "--etp", "1"};
  EXPECT_EQ(value_of(planned("model", 16, two), "sequence_parallel"), "true");
  const Outcome without = run(plan("model", 16, two + Words{"--no-sequence-parallel", "--json"}));
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_TRUE(has(without.err, "tp 2 needs sequence parallelism beside experts"));
}

TEST_F(TargetCommand, CaseV18Fp8WantsSequencesInSixteens) {
  write_json("model.json", llama());
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  for (const int tokens : {176, 184, 192, 200, 208}) {
    for (const char* precision : {"fp8", "bf16"}) {
      const Outcome outcome =
          run(plan("model", 16,
                   {"--target", "megatron", "--tp", "1", "--seq", std::to_string(tokens),
                    "--precision", precision, "--json"}));
      const bool refused = precision == std::string("fp8") && tokens % 16 != 0;
      EXPECT_EQ(outcome.exit_code, refused ? 3 : 0) << tokens << " " << precision << outcome.err;
      if (refused && tokens == 184) {
        EXPECT_TRUE(has(outcome.out, "from 184 to 192")) << "padded to 192";
      }
    }
  }
}

// U06 — alpa takes powers of two alone
TEST_F(TargetCommand, CaseU06NodesOfSix) {
  Json model = llama(24, 3072, 48);
  model["intermediate_size"] = 12288;
  write_json("model.json", model);
  write_json("machine.json", cluster({{6, "300 GB/s"}, {4, "25 GB/s"}}));
  // 3.9 B parameters, unshared: 70 GB of state, which fits six ways at 20 GB and not fewer
  write_json("machine.json", cluster({{6, "300 GB/s"}, {4, "25 GB/s"}}, "20 GB"));
  const Words small{"--seq", "1536", "--zero", "0", "--micro-batch", "1"};
  for (const Words& degrees :
       {Words{}, Words{"--tp", "6", "--dp", "4"}, Words{"--tp", "3", "--pp", "2", "--dp", "4"}}) {
    const Json plan = planned("model", 96, small + degrees);
    EXPECT_EQ(plan.at("devices").at("used"), 24);
    EXPECT_EQ(plan.at("status"), "optimal");
  }
}

TEST_F(TargetCommand, CaseU06NodesOfAnySize) {
  write_json("model.json", llama(6, 840, 12));
  for (const int devices : {1, 2, 3, 5, 6, 7, 9, 10, 12}) {
    write_json("machine.json", cluster({{devices, "300 GB/s"}, {3, "25 GB/s"}}));
    const Json plan = planned("model", 15120, {"--seq", "2520", "--pp", "1"});
    EXPECT_EQ(plan.at("devices").at("used"), 3 * devices);
    if (12 % devices == 0 && devices <= 8) {
      EXPECT_EQ(degrees(planned("model", 15120,
                                {"--seq", "2520", "--dp", "3", "--pp", "1", "--tp",
                                 std::to_string(devices)}),
                        "tp"),
                std::set<std::int64_t>{devices});
    }
  }
}

}  // namespace
}  // namespace nestplan::cases

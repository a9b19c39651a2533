#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

const std::string kInputs = NESTPLAN_SOURCE_DIR "/inputs/";

/// Plans of a shipped model on a node of eight devices.
class ExportSettingsTest : public Workspace {
 protected:
  const std::string model_ = kInputs + "models/llama-2-7b";
  const std::string cluster_ = kInputs + "clusters/single-node-8xh100.json";

  /// Two stages with tp 2 in two copies, and what `more` says.
  std::string plan(const Words& more = {}) const {
    Words words{"plan", "--model", model_, "--cluster",      cluster_, "--global-batch",
                "16",   "--seq",   "2048", "--tp",           "2",      "--pp",
                "2",    "--dp",    "2",    "--zero",         "1",      "--recompute",
                "none", "-q",      "-o",   path("plan.json")};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return path("plan.json");
  }

  Outcome export_to(const std::string& format, const Words& more = {}) const {
    Words words{"export", path("plan.json"), "--cluster", cluster_, "--to", format};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  void expect_refused(const Outcome& outcome, const std::string& what) const {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find(what), std::string::npos) << outcome.err;
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ExportSettingsTest, EveryFramework) {
  plan({"--stage-layers", "even", "--dp-inner", "2"});
  const Outcome megatron = export_to("megatron");
  EXPECT_EQ(megatron.exit_code, 0) << megatron.err;
  EXPECT_EQ(megatron.err, "");
  for (const char* line :
       {"  --tensor-model-parallel-size 2\n", "  --pipeline-model-parallel-size 2\n",
        "  --sequence-parallel\n", "  --use-distributed-optimizer\n", "  --num-layers 32\n",
        "  --global-batch-size 16\n", "  --seq-length 2048\n", "  --bf16\n"}) {
    EXPECT_TRUE(contains(megatron.out, line)) << line << megatron.out;
  }
  EXPECT_FALSE(contains(megatron.out, "--hidden-size"));
  EXPECT_TRUE(contains(export_to("bridge").out, "model.tensor_model_parallel_size=2\n"));
  EXPECT_TRUE(contains(export_to("torchtitan").out, "pipeline_parallel_degree = 2\n"));
  const Json deepspeed = Json::parse(export_to("deepspeed").out);
  EXPECT_EQ(deepspeed["pipeline"]["stages"], 2);
  EXPECT_EQ(deepspeed["zero_optimization"]["stage"], 1);
}

TEST_F(ExportSettingsTest, TheModelTellsItsShape) {
  plan();
  const Outcome shaped = export_to("megatron", {"--model", model_});
  EXPECT_EQ(shaped.exit_code, 0) << shaped.err;
  EXPECT_TRUE(contains(shaped.out, "  --hidden-size 4096\n")) << shaped.out;
  EXPECT_TRUE(contains(shaped.out, "  --swiglu\n"));
  EXPECT_TRUE(contains(shaped.out, "  --seq-length 2048\n"));
  expect_refused(export_to("megatron", {"--model", kInputs + "models/mistral-7b"}),
                 "--model: " + path("plan.json") + " is a plan for \"llama-2-7b\"");
  expect_refused(export_to("megatron", {"--model", model_, "--precision", "bf17"}), "--precision");
}

TEST_F(ExportSettingsTest, SequencesAreThePlans) {
  plan();
  EXPECT_EQ(export_to("megatron", {"--seq", "2048"}).exit_code, 0);
  expect_refused(export_to("megatron", {"--seq", "4096"}),
                 "--seq: 4096 tokens, but the plan is for sequences of 2048");
  expect_refused(export_to("megatron", {"--model", model_, "--seq", "4096"}),
                 "--seq: 4096 tokens a sample, but the plan is for 2048");
}

TEST_F(ExportSettingsTest, WhatThePlanHidesIsAskedFor) {
  plan();
  EXPECT_FALSE(contains(export_to("megatron").out, "--overlap-grad-reduce"));
  plan({"--target", "megatron"});
  const Outcome hidden = export_to("megatron");
  EXPECT_EQ(hidden.exit_code, 0) << hidden.err;
  EXPECT_TRUE(contains(hidden.out, "  --overlap-grad-reduce\n")) << hidden.out;
  EXPECT_TRUE(contains(hidden.out, "  --overlap-param-gather\n")) << hidden.out;
  EXPECT_FALSE(contains(hidden.out, "--tp-comm-overlap")) << hidden.out;
}

TEST_F(ExportSettingsTest, ModelsThatAreNoDecoders) {
  const auto planned = [&](const std::string& model, const Words& more) {
    Words words{"plan",      "--model", kInputs + "models/" + model,
                "--cluster", cluster_,  "--global-batch",
                "16",        "--pp",    "1",
                "-q",        "-o",      path("plan.json")};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  };
  planned("sdxl-unet", {});
  expect_refused(export_to("megatron", {"--model", kInputs + "models/sdxl-unet"}),
                 "model: a U-Net, but pretrain_gpt.py");
  planned("t5-11b", {"--seq", "512"});
  const Outcome t5 = export_to("megatron", {"--model", kInputs + "models/t5-11b", "--seq", "512"});
  EXPECT_EQ(t5.exit_code, 0) << t5.err;
  for (const char* part :
       {" pretrain_t5.py ", "  --encoder-num-layers 24\n", "  --encoder-seq-length 512\n",
        "  --decoder-seq-length 512\n", "  --position-embedding-type relative\n"}) {
    EXPECT_TRUE(contains(t5.out, part)) << part << t5.out;
  }
  EXPECT_FALSE(contains(t5.out, "pretrain_gpt")) << t5.out;
}

TEST_F(ExportSettingsTest, ThePlanIsNotWrittenOver) {
  const std::string file = plan();
  const std::string before = read_file(file);
  std::filesystem::create_symlink(file, path("link.json"));
  for (const std::string& output : {file, path("./plan.json"), path("link.json")}) {
    expect_refused(export_to("megatron", {"-o", output}), "--output: ");
    const Outcome traced = run({"simulate", file, "--model", model_, "--cluster", cluster_,
                                "--global-batch", "16", "--seq", "2048", "--trace", output});
    expect_refused(traced, "--trace: ");
    EXPECT_EQ(read_file(file), before);
  }
}

TEST_F(ExportSettingsTest, FlagsOfThePlanHoldAgain) {
  plan();
  const Outcome apart = export_to(
      "megatron", {"--no-sequence-parallel", "--precision", "fp8", "--vocabulary-multiple", "64"});
  EXPECT_EQ(apart.exit_code, 0) << apart.err;
  EXPECT_FALSE(contains(apart.out, "  --sequence-parallel\n"));
  EXPECT_TRUE(contains(apart.out, "  --fp8-format hybrid\n"));
  EXPECT_TRUE(contains(apart.out, "  --make-vocab-size-divisible-by 64\n"));
  expect_refused(export_to("torchtitan", {"--precision", "fp16"}),
                 "--precision: it does not train in fp16");
  expect_refused(export_to("torchtitan", {"--rank-order", "tp-cp-ep-pp-dp"}), "--rank-order");
}

TEST_F(ExportSettingsTest, WhatCannotBeToldIsRefusedOrSaid) {
  plan({"--schedule", "gpipe"});
  const Outcome refused = export_to("megatron");
  expect_refused(refused, path("plan.json") + ": strategy.schedule: schedule gpipe over pp 2");
  EXPECT_TRUE(contains(refused.err, "--nearest takes 1f1b")) << refused.err;
  const Outcome near = export_to("megatron", {"--nearest"});
  EXPECT_EQ(near.exit_code, 0) << near.err;
  EXPECT_TRUE(contains(near.err, "nestplan: strategy.schedule: ")) << near.err;
  EXPECT_TRUE(contains(near.out, "# - strategy.schedule: ")) << near.out;
  EXPECT_EQ(export_to("megatron", {"--nearest", "-q"}).err, "");
  expect_refused(export_to("maxtext"), "--cluster: MaxText");
}

TEST_F(ExportSettingsTest, IsWrittenToAFile) {
  plan();
  const std::string file = path("settings.sh");
  const Outcome outcome = export_to("megatron", {"-o", file});
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(read_file(file), export_to("megatron").out);
}

TEST_F(ExportSettingsTest, FlagsAreForFrameworksAlone) {
  plan();
  for (const Words& flag :
       {Words{"--model", model_}, Words{"--seq", "2048"}, Words{"--nearest"},
        Words{"--no-sequence-parallel"}, Words{"--vocabulary-multiple", "64"}}) {
    expect_refused(export_to("csv", flag), flag.front() + ": is for --to megatron, ");
  }
  EXPECT_EQ(export_to("csv", {"--precision", "fp8"}).exit_code, 0);
}

TEST_F(ExportSettingsTest, PlansOfGraphsOfYourOwn) {
  ASSERT_EQ(
      run(on_small({"plan"}, {"--tp", "2", "--pp", "1", "-q", "-o", path("plan.json")})).exit_code,
      0);
  const Words to{"export", path("plan.json"), "--cluster", path("cluster.json"),
                 "--to",   "megatron"};
  const Outcome single = run(to);
  EXPECT_EQ(single.exit_code, 0) << single.err;
  EXPECT_FALSE(contains(single.out, "--num-layers")) << single.out;
  ASSERT_EQ(
      run(on_small({"plan"}, {"--tp", "2", "--pp", "2", "-q", "-o", path("plan.json")})).exit_code,
      0);
  expect_refused(run(to), "is neither embedding, layer.N, mtp.N nor head");
}

}  // namespace
}  // namespace nestplan::test

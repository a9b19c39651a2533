#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "frameworks/plans.hpp"
#include "nestplan/frameworks/frameworks.hpp"
#include "nestplan/targets/targets.hpp"
#include "util/expect_error.hpp"

namespace nestplan::testing {
namespace {

using test::expect_contains;
using test::message_of;

/// Two stages with tp 2 in two copies, on one node.
Case two_stages(const std::vector<std::int64_t>& layers = {2, 2}) {
  Case out;
  out.plan = plan_of({.tp = 2, .dp_outer = 2, .microbatches = 4, .zero = 1}, layers);
  out.cluster = cluster_of(1, 8);
  out.job.devices = 8;
  return out;
}

void change_all(Case& from, const std::function<void(model::StageOutline&)>& change) {
  for (model::StageOutline& stage : from.plan.stages) change(stage);
}

/// Refused with field and rule; the nearest is named, taken on request, and said.
void expect_near(const std::string& format, const Case& from, const std::string& field,
                 const std::string& rule, const std::string& nearest) {
  const std::string message = message_of([&] { from.settings(format); });
  expect_contains(message, field + ": ");
  expect_contains(message, "rule " + rule + "; --nearest takes " + nearest);
  const frameworks::Settings settings = from.settings(format, true);
  const auto says = [&](const std::string& remark) {
    return remark.starts_with(field + ": ") && remark.ends_with("(exported with " + nearest + ")");
  };
  EXPECT_TRUE(std::any_of(settings.remarks.begin(), settings.remarks.end(), says)) << settings.text;
  for (const std::string& remark : settings.remarks) {
    if (format != "deepspeed") expect_contains(settings.text, "# - " + remark + "\n");
  }
}

/// Refused whether or not the nearest is asked for.
template <class Expected = InvalidInput>
void expect_refused(const std::string& format, const Case& from, const std::string& what) {
  for (const bool nearest : {false, true}) {
    const std::string message = message_of<Expected>([&] { from.settings(format, nearest); });
    expect_contains(message, what);
    EXPECT_EQ(message.find("--nearest"), std::string::npos) << message;
  }
}

TEST(Refusals, SchedulesThatFrameworksDoNotRun) {
  Case gpipe = two_stages();
  gpipe.plan.schedule = model::Schedule::kGPipe;
  for (const char* format : {"megatron", "bridge", "deepspeed"}) {
    expect_near(format, gpipe, "strategy.schedule", "schedule", "1f1b");
  }
  EXPECT_NO_THROW(gpipe.settings("torchtitan"));
  Case few = two_stages();
  few.plan.microbatches = 1;
  few.plan.global_batch = 2;
  expect_near("torchtitan", few, "strategy.schedule", "microbatches-1f1b", "gpipe");
}

TEST(Refusals, StagesThatDiffer) {
  for (const char* format : {"megatron", "bridge", "deepspeed", "torchtitan"}) {
    Case recompute = two_stages();
    recompute.plan.stages[1].recompute = model::Recompute::kFull;
    expect_near(format, recompute, "stages[].recompute", "one-recompute", "the most of them");
    Case zero = two_stages();
    zero.plan.stages[1].zero = 0;
    expect_near(format, zero, "stages[].zero", "one-zero", "the highest, over all copies");
    Case strategy = two_stages();
    strategy.plan.stages[1].tp = strategy.plan.stages[1].etp = 1;
    expect_refused(format, strategy, "stages[].strategy: the 2 stages differ in strategy");
  }
}

TEST(Refusals, ZeroThatFrameworksLack) {
  Case pipeline = two_stages();
  change_all(pipeline, [](auto& stage) { stage.zero = 3; });
  for (const char* format : {"megatron", "deepspeed", "torchtitan"}) {
    expect_near(format, pipeline, "stages[].zero", "zero-stages", "ZeRO 1");
  }
  Case pods = two_stages({4});
  pods.plan.dp_inner = 2;
  pods.plan.global_batch = 16;
  change_all(pods, [](auto& stage) { stage.shard = model::ShardSpan::kPod; });
  expect_near("deepspeed", pods, "stages[].shard", "pod-shards", "shards over all copies");
  expect_near("torchtitan", pods, "stages[].zero", "zero-single-stage", "ZeRO 2");
}

TEST(Refusals, LayoutsThatFrameworksLack) {
  expect_near("deepspeed", two_stages({1, 3}), "stages[].layers", "even-stages",
              "as many layers in all stages");
  const Case odd = two_stages({1, 2});
  expect_contains(message_of([&] { odd.settings("deepspeed"); }), "stages[].layers");
  expect_contains(message_of([&] { odd.settings("deepspeed", true); }),
                  "stages[].layers: 3 layers do not divide");
  EXPECT_NO_THROW(odd.settings("megatron"));
  EXPECT_NO_THROW(odd.settings("torchtitan"));

  Case cut = two_stages();
  cut.plan.stages[0].chunks = {{"embedding", "layer.0.attention"}};
  cut.plan.stages[1].chunks = {{"layer.0.mlp", "head"}};
  Case unknown = two_stages();
  unknown.plan.stages[0].chunks = {{"a"}};
  for (const std::string& format : frameworks::format_names()) {
    expect_refused(format, cut, "stages[].layers: \"layer.0.mlp\" is cut");
    expect_refused(format, unknown, "stages[].layers: \"a\" is neither");
  }
}

TEST(Refusals, ModelsThatProgramsDoNotTrain) {
  using Kind = frameworks::ModelKind;
  const auto of_kind = [](Kind kind, std::int64_t tp) {
    Case out = two_stages({4});
    out.plan = plan_of({.tp = tp, .dp_inner = 2, .microbatches = 4, .zero = 1}, {4});
    out.plan.stages[0].chunks = {{"a", "b"}};
    out.job.kind = kind;
    return out;
  };
  for (const Kind kind : {Kind::kMultimodal, Kind::kUNet, Kind::kDiffusionTransformer}) {
    for (const char* format : {"megatron", "bridge", "torchtitan", "maxtext"}) {
      expect_refused(format, of_kind(kind, 1),
                     std::string("model: ") + targets::with_article(kind));
    }
    const frameworks::Settings plain = of_kind(kind, 1).settings("deepspeed");
    expect_contains(plain.text, "train.py --deepspeed");
    EXPECT_EQ(plain.text.find("pretrain_gpt.py"), std::string::npos) << plain.text;
    EXPECT_EQ(plain.text.find("\"arguments\""), std::string::npos) << plain.text;
    expect_refused("deepspeed", of_kind(kind, 2),
                   std::string("model: ") + targets::with_article(kind));
  }
  const Case encoder = of_kind(Kind::kEncoder, 2);
  expect_contains(encoder.settings("megatron").text, " pretrain_bert.py ");
  expect_refused("bridge", encoder, "model: an encoder, but");
  const Case pair = of_kind(Kind::kEncoderDecoder, 2);
  const std::string t5 = pair.settings("megatron").text;
  expect_contains(t5, " pretrain_t5.py ");
  EXPECT_EQ(t5.find("pretrain_gpt"), std::string::npos) << t5;
  Case uneven = pair;
  uneven.job.dimensions.blocks = 5;
  uneven.job.dimensions.encoder_blocks = 2;
  expect_refused("megatron", uneven, "model: 2 layers of the encoder and 3 of the decoder");
  Case staged = two_stages();
  staged.job.kind = Kind::kEncoderDecoder;
  expect_refused("megatron", staged, "model: an encoder-decoder over pp 2");
}

TEST(Refusals, TheIdsOfLayersTellTheKindOfModel) {
  Case pair = two_stages({4});
  pair.plan.stages[0].chunks = {{"encoder.embedding", "encoder.layer.0", "decoder.layer.0"}};
  expect_contains(pair.settings("megatron").text, " pretrain_t5.py ");
  expect_refused("bridge", pair, "model: an encoder-decoder, but");
  Case graph = two_stages({4});
  graph.plan.stages[0].chunks = {{"a", "b"}};
  const frameworks::Settings settings = graph.settings("megatron");
  expect_contains(settings.text, " PROGRAM.py ");
  expect_contains(settings.remarks.front(), "stages[].layers: not those of a decoder");
}

TEST(Refusals, CopiesWithoutFsdp) {
  Case plain = two_stages();
  change_all(plain, [](auto& stage) { stage.zero = 0; });
  expect_near("torchtitan", plain, "stages[].zero", "plain-copies",
              "ZeRO 1 with a pipeline, else ZeRO 2");
  Case split = two_stages({4});
  change_all(split, [](auto& stage) { stage.zero = 0; });
  expect_near("torchtitan", split, "stages[].zero", "plain-copies",
              "ZeRO 1 with a pipeline, else ZeRO 2");
  Case alone = two_stages({4});
  alone.plan = plan_of({.tp = 2, .microbatches = 4}, {4});
  expect_refused("torchtitan", alone, "strategy.dp: bf16 in one copy of tp 2 · pp 1");
  alone.job.precision = "fp32";
  EXPECT_NO_THROW(alone.settings("torchtitan"));
  Case copies = two_stages({4});
  copies.plan = plan_of({.dp_inner = 2, .microbatches = 4}, {4});
  EXPECT_NO_THROW(copies.settings("torchtitan"));
}

TEST(Refusals, SequencesThatThePlanIsNotFor) {
  Case from = two_stages();
  from.job.sequence = 8192;
  for (const char* format : {"megatron", "bridge", "deepspeed", "torchtitan"}) {
    expect_refused<InvalidConfig>(format, from,
                                  "--seq: 8192 tokens, but the plan is for sequences of 4096");
  }
}

TEST(Refusals, ExpertsInPipelinesOfDeepSpeed) {
  Case from = two_stages();
  from.plan = plan_of({.ep = 2, .dp_inner = 2, .microbatches = 4, .zero = 1}, {2, 2});
  expect_refused("deepspeed", from, "strategy.pp: 2 experts with pp 2");
  from.plan = plan_of({.ep = 2, .dp_inner = 2, .microbatches = 4, .zero = 1}, {4});
  expect_contains(from.settings("deepspeed").text, "--no-pipeline-parallel");
}

TEST(Refusals, FormsOfContextParallelism) {
  Case ring;
  ring.plan = plan_of({.cp = 2, .dp_inner = 2, .zero = 1}, {4});
  ring.cluster = cluster_of(1, 4);
  ring.job.devices = 4;
  expect_near("deepspeed", ring, "stages[0].strategy", "context-form", "the other form of cp");
  Case trade = ring;
  change_all(trade, [](auto& stage) {
    stage.context = model::ContextForm::kAllToAll;
    stage.zero = 3;
  });
  expect_near("torchtitan", trade, "stages[0].strategy", "context-form", "the other form of cp");
  Case both = trade;
  both.plan = plan_of({.tp = 2, .cp = 2, .zero = 1}, {4});
  change_all(both, [](auto& stage) { stage.context = model::ContextForm::kAllToAll; });
  expect_refused("deepspeed", both, "stages[0].cp: cp 2 with tp 2");
}

/// DeepSpeed's own Ulysses has grouped KV heads, Megatron-DeepSpeed's has not: the model's own
/// program gets the settings.
TEST(Refusals, UlyssesIsDeepSpeedsOwn) {
  Case from;
  from.plan = plan_of({.cp = 2, .dp_inner = 2, .zero = 3}, {4});
  change_all(from, [](auto& stage) { stage.context = model::ContextForm::kAllToAll; });
  from.cluster = cluster_of(1, 4);
  from.job.devices = 4;
  from.job.dimensions.heads = 32;
  from.job.dimensions.kv_heads = 8;
  const frameworks::Settings settings = from.settings("deepspeed");
  expect_contains(settings.text, "\"sequence_parallel_size\": 2");
  expect_contains(settings.text, "train.py --deepspeed");
  expect_contains(settings.text, "UlyssesSPAttentionHF");
  EXPECT_EQ(settings.text.find("--ds-sequence-parallel-size"), std::string::npos) << settings.text;
}

TEST(Refusals, PredictionsOfOtherFrameworks) {
  Case from = two_stages();
  from.plan = plan_of({.tp = 2, .dp_inner = 2, .microbatches = 4, .zero = 1}, {2, 2}, 2);
  for (const char* format : {"deepspeed", "torchtitan"}) {
    expect_refused(format, from, "stages[].layers: 2 modules of multi-token prediction");
  }
  EXPECT_NO_THROW(from.settings("megatron"));
  auto& last = from.plan.stages[1].chunks[0];
  last.erase(std::find(last.begin(), last.end(), "mtp.0"));
  from.plan.stages[0].chunks[0].push_back("mtp.0");
  expect_refused("megatron", from, "stages[].layers: modules of multi-token prediction in several");
}

/// Its own choice of operators is said and taken on request.
TEST(Refusals, SelectiveRecomputationOfTorchtitan) {
  Case from = two_stages();
  change_all(from, [](auto& stage) { stage.recompute = model::Recompute::kSelective; });
  expect_near("torchtitan", from, "stages[].recompute", "selective", "its own choice of operators");
}

TEST(Refusals, WhatThePlanLeavesOpen) {
  const auto open = [](const std::function<void(model::PlanOutline&)>& change,
                       const std::string& what) {
    Case from = two_stages();
    change(from.plan);
    for (const std::string& format : frameworks::format_names()) {
      expect_refused(format, from, what + " is missing, the plan leaves it open");
    }
  };
  open([](auto& plan) { plan.stages[1].zero.reset(); }, "stages[1]: \"zero\"");
  open([](auto& plan) { plan.stages[1].recompute.reset(); }, "stages[1]: \"recompute\"");
  open([](auto& plan) { plan.schedule.reset(); }, "strategy: \"schedule\"");
  open([](auto& plan) { plan.micro_batch.reset(); }, "strategy: \"micro_batch\"");
  open([](auto& plan) { plan.microbatches.reset(); }, "strategy: \"microbatches\"");
}

TEST(Refusals, BatchesThatDoNotDivide) {
  Case from = two_stages();
  from.plan.global_batch = 7;
  for (const char* format : {"megatron", "bridge", "deepspeed", "torchtitan"}) {
    expect_refused(format, from, "batch.global_batch: global batch 7");
  }
}

TEST(Refusals, WhatTheModelDoesNotAllow) {
  Case from = two_stages();
  from.job.dimensions.heads = 3;
  expect_refused("megatron", from, "stages[0].strategy: 3 attention heads over tp 2");
  from = two_stages();
  from.job.architecture = model::Architecture{};
  from.job.architecture->layers = 5;
  expect_refused("megatron", from, "stages[].layers: hold 4 layers, but the model has 5");
}

TEST(Refusals, WhatFlagsSay) {
  Case order = two_stages();
  order.order = placement::RankOrder::kDataLast;
  EXPECT_NO_THROW(order.settings("megatron"));
  for (const char* format : {"deepspeed", "torchtitan", "maxtext"}) {
    expect_refused<InvalidConfig>(format, order, "--rank-order: ");
  }
  Case half = two_stages();
  half.job.precision = "fp16";
  EXPECT_NO_THROW(half.settings("deepspeed"));
  expect_refused<InvalidConfig>("torchtitan", half, "--precision: it does not train in fp16");
  expect_refused<InvalidConfig>("maxtext", two_stages(), "--cluster: MaxText");
  expect_contains(message_of<InvalidConfig>([&] { half.settings("megatorn"); }), "\"megatron\"");
}

TEST(Refusals, MeshesThatDoNotFitSlices) {
  Case from;
  from.plan =
      plan_of({.tp = 4, .dp_inner = 2, .zero = 3, .recompute = model::Recompute::kFull}, {4});
  from.cluster = torus_of(2, 4, 1);
  from.job.devices = 8;
  from.job.slices = 2;
  EXPECT_NO_THROW(from.settings("maxtext"));
  from.plan = plan_of({.tp = 8, .recompute = model::Recompute::kFull}, {4});
  expect_refused("maxtext", from,
                 "degrees over the network between slices make 1, but there are 2");
  from.plan = plan_of({.tp = 4, .recompute = model::Recompute::kFull}, {4});
  expect_refused("maxtext", from, "strategy.dp: 4 of 8 devices");
  from.plan = plan_of({.tp = 4, .dp_inner = 2, .zero = 3}, {4});
  expect_near("maxtext", from, "stages[].recompute", "remat", "minimal_with_context");
}

TEST(Remarks, SayWhatIsNotHiddenAsCounted) {
  Case from = two_stages();
  from.plan = plan_of({.tp = 2, .dp_inner = 2, .microbatches = 4, .zero = 1}, {2, 2});
  const auto names = [&](const char* format) {
    std::string terms;
    for (const std::string& remark : from.settings(format).remarks) {
      const std::string_view text = remark;
      if (text.starts_with("strategy.overlap.")) terms += text.substr(17, text.find(':') - 16);
    }
    return terms;
  };
  EXPECT_EQ(names("megatron"), "");
  EXPECT_EQ(from.settings("megatron").text.find("--overlap"), std::string::npos);
  from.plan.overlap = {.tensor = 0.5, .sync = 1};
  EXPECT_EQ(names("megatron"), "");
  const std::string asked = from.settings("megatron").text;
  for (const char* flag :
       {"--tp-comm-overlap\n", "--overlap-grad-reduce\n", "--overlap-param-gather\n"}) {
    expect_contains(asked, flag);
  }
  expect_contains(from.settings("bridge").text, "comm_overlap.tp_comm_overlap=true\n");
  EXPECT_EQ(names("torchtitan"), "");
  expect_contains(from.settings("torchtitan").text, "enable_async_tensor_parallel = true\n");
  EXPECT_EQ(names("deepspeed"), "tensor:sync:");  // its pipelines reduce at the end
  from.job.sequence_parallel = false;
  EXPECT_EQ(names("megatron"), "tensor:");
}

TEST(Remarks, SayWhatTheSettingsWereReadFrom) {
  const Case from = two_stages();
  for (const char* format : {"megatron", "bridge", "deepspeed", "torchtitan"}) {
    expect_contains(from.settings(format).text, std::string(frameworks::version_of(format)));
  }
  std::ifstream file(NESTPLAN_SOURCE_DIR "/README.md");
  std::ostringstream readme;
  readme << file.rdbuf();
  for (const std::string& format : frameworks::format_names()) {
    const std::string version(frameworks::version_of(format));
    const std::size_t commit = version.find("commit ");
    ASSERT_NE(commit, std::string::npos) << version;
    expect_contains(readme.str(), version.substr(commit, 19));
  }
}

TEST(Remarks, SayOnceWhatTorchrunCannot) {
  const std::string text = two_stages().settings("megatron").text;
  const std::size_t first = text.find("in turn");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("in turn", first + 1), std::string::npos) << text;
}

TEST(Remarks, SayWhatHasNoWords) {
  Case from = two_stages();
  ASSERT_EQ(from.settings("megatron").remarks.size(), 1U);  // pods one after the other
  from.plan = plan_of({.tp = 2, .dp_inner = 2, .microbatches = 4, .zero = 1}, {2, 2});
  EXPECT_TRUE(from.settings("megatron").remarks.empty());
  from.plan = plan_of({.tp = 2, .microbatches = 4}, {2, 2});
  from.plan.stages[1].position = 6;  // a gap
  const frameworks::Settings gap = from.settings("megatron");
  ASSERT_EQ(gap.remarks.size(), 2U);
  expect_contains(gap.remarks[0], "4 devices of the cluster stay idle");
  expect_contains(gap.remarks[1], "ranks do not go through nodes and devices in turn");
  EXPECT_EQ(gap.text.find("torchrun --"), std::string::npos) << gap.text;
  from = two_stages();
  from.job.precision = "tf32";
  expect_contains(from.settings("bridge").remarks.front(), "set_float32_matmul_precision");
}

}  // namespace
}  // namespace nestplan::testing

// Configurations that people reported as refused, or as wrongly accepted, by the frameworks.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/targets/targets.hpp"
#include "util/expect_error.hpp"

namespace nestplan::targets {
namespace {

using test::expect_contains;
using Layout = model::StageConstraints::Layout;

std::string broken_name(const RuleSet& set, const Candidate& candidate) {
  const Rule* rule = set.broken(candidate);
  return rule == nullptr ? "" : rule->name;
}

std::string explanation(const RuleSet& set, const Candidate& candidate) {
  const Rule* rule = set.broken(candidate);
  return rule == nullptr ? "nothing is broken" : rule->explain(candidate);
}

std::string setting(const RuleSet& set, const Candidate& candidate, const std::string& key) {
  for (const Setting& each : set.settings(candidate)) {
    if (each.key == key) return each.value;
  }
  return "";
}

/// The numbers from 1 to `most` for which the candidate, changed by `change`, breaks nothing.
template <typename Change>
std::vector<std::int64_t> legal(const RuleSet& set, std::int64_t most, Change change) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = 1; number <= most; ++number) {
    Candidate candidate;
    change(candidate, number);
    if (set.broken(candidate) == nullptr) numbers.push_back(number);
  }
  return numbers;
}

using Numbers = std::vector<std::int64_t>;

// deepspeedai/DeepSpeed issue 3634
TEST(Cases, FiftyTwoHeadsDoNotSplitEightWays) {
  for (const char* name : {"megatron", "deepspeed", "torchtitan"}) {
    const auto change = [](Candidate& c, std::int64_t tp) {
      c.model.heads = 52;
      c.model.hidden = 6656;
      c.model.blocks = 60;
      c.tp = tp;
    };
    EXPECT_EQ(legal(rule_set(name), 8, change), (Numbers{1, 2, 4})) << name;
    Candidate candidate;
    change(candidate, 8);
    EXPECT_EQ(explanation(rule_set(name), candidate),
              "52 attention heads over tp 8; nearest: tp 4 or 13");
  }
}

// NVIDIA/Megatron-LM issue 1778: 20 layers, one stage, numbers left over from an uneven pipeline
TEST(Cases, ASingleStageHasNoNumberOfLayers) {
  const RuleSet& set = rule_set("megatron");
  Candidate candidate;
  candidate.model.blocks = 20;
  candidate.layout = Layout::kFirstLast;
  candidate.first_layers = 3;
  candidate.last_layers = 1;
  candidate.pp = 1;
  EXPECT_EQ(broken_name(set, candidate), "single-stage");
  EXPECT_EQ(setting(set, candidate, "decoder_first_pipeline_num_layers"), "");
  EXPECT_EQ(setting(set, candidate, "decoder_last_pipeline_num_layers"), "");

  candidate.first_layers = candidate.last_layers = 20;
  EXPECT_EQ(broken_name(set, candidate), "");
  EXPECT_EQ(setting(set, candidate, "decoder_first_pipeline_num_layers"), "");

  candidate.pp = 4;
  candidate.first_layers = 3;
  candidate.last_layers = 1;
  EXPECT_EQ(broken_name(set, candidate), "") << explanation(set, candidate);
  EXPECT_EQ(setting(set, candidate, "decoder_first_pipeline_num_layers"), "3");
  EXPECT_EQ(setting(set, candidate, "decoder_last_pipeline_num_layers"), "1");
}

// NVIDIA/Megatron-LM issue 750
TEST(Cases, InterleavingOverTwoStagesNeedsOverlap) {
  const RuleSet& set = rule_set("megatron");
  Candidate candidate;
  candidate.model.blocks = 8;
  candidate.pp = candidate.vpp = 2;
  EXPECT_EQ(broken_name(set, candidate), "");
  EXPECT_EQ(setting(set, candidate, "overlap_p2p_comm"), "true");

  candidate.overlap_p2p = false;
  EXPECT_EQ(broken_name(set, candidate), "interleaving-two-stages");
  EXPECT_EQ(setting(set, candidate, "overlap_p2p_comm"), "");
  expect_contains(explanation(set, candidate), "vpp 1");

  candidate.vpp = 1;
  EXPECT_EQ(broken_name(set, candidate), "");
  candidate.vpp = 2;
  candidate.pp = 4;
  EXPECT_EQ(broken_name(set, candidate), "") << "with four stages there are two peers";
}

// epfLLM/Megatron-LLM issue 103, NVIDIA/Megatron-LM issue 1754
TEST(Cases, VocabulariesArePaddedByTensorDegree) {
  const std::vector<std::int64_t> degrees{1, 2, 4, 8};
  const auto padded = [&](std::int64_t vocabulary) {
    Numbers rows;
    for (const std::int64_t tp : degrees) rows.push_back(padded_vocabulary(vocabulary, 128, tp));
    return rows;
  };
  EXPECT_EQ(padded(50257), (Numbers{50304, 50432, 50688, 51200}));
  EXPECT_EQ(padded(151669), (Numbers{151680, 151808, 152064, 152576}));
  EXPECT_EQ(padded_vocabulary(51200, 128, 8), 51200);
}

// deepspeedai/DeepSpeed pull request 8395, issue 6914
TEST(Cases, BatchesAreSplitOverCopiesNotDevices) {
  const RuleSet& deepspeed = rule_set("deepspeed");
  Candidate first;
  first.devices = 16;
  first.tp = 4;
  first.cp = first.pp = 1;
  first.global_batch = 64;
  for (const std::int64_t micro_batch : {4, 8}) {
    first.micro_batch = micro_batch;
    EXPECT_EQ(broken_name(deepspeed, first), "") << "16 samples on each of 4 copies";
    EXPECT_EQ(setting(deepspeed, first, "train_batch_size"), "64");
    EXPECT_EQ(setting(deepspeed, first, "train_micro_batch_size_per_gpu"),
              std::to_string(micro_batch));
    EXPECT_EQ(setting(deepspeed, first, "gradient_accumulation_steps"),
              std::to_string(16 / micro_batch));
  }

  Candidate second;
  second.devices = 64;
  second.tp = 4;
  second.pp = second.cp = 2;
  second.global_batch = 30;
  second.micro_batch = 2;
  for (const std::string& name : rule_set_names()) {
    const Rule* rule = rule_set(name).broken(second, Scope::kConfiguration);
    ASSERT_NE(rule, nullptr) << name;
    EXPECT_STREQ(rule->name, "batch");
    EXPECT_EQ(rule->explain(second),
              "global batch 30 is no multiple of micro-batch 2 · dp 4 = 8 (6 left over); "
              "nearest: 24 or 32");
  }
  for (const std::int64_t batch : {24, 32}) {
    second.global_batch = batch;
    EXPECT_EQ(broken_name(rule_set("megatron"), second), "");
  }
  EXPECT_EQ(setting(deepspeed, second, "gradient_accumulation_steps"), "4");
}

TEST(Cases, OnlyOwnRulesLetTheBatchBeUneven) {
  Candidate candidate;
  candidate.dp = 4;
  candidate.micro_batch = 2;
  candidate.global_batch = 30;
  candidate.uneven_batch = true;
  EXPECT_EQ(broken_name(rule_set("any"), candidate), "");
  EXPECT_EQ(broken_name(rule_set("megatron"), candidate), "batch");
}

// NVIDIA-NeMo/Speech issue 14838, NVIDIA-NeMo/Megatron-Bridge issue 546
TEST(Cases, ExpertTensorDegreeIsInheritedUnlessItIsSet) {
  const RuleSet& set = rule_set("megatron");
  Candidate candidate;
  candidate.model.experts = 8;
  candidate.devices = 4;
  candidate.tp = candidate.pp = candidate.ep = 2;
  EXPECT_EQ(broken_name(set, candidate), "expert-world");
  EXPECT_EQ(explanation(set, candidate),
            "ETP 2 (unset, inherited from TP) · EP 2 · PP 2 = 8 > 4 devices, so expert-DP is no "
            "whole number; nearest: ETP 1");
  EXPECT_EQ(setting(set, candidate, "expert_tensor_parallel_size"), "2") << "always written";

  candidate.etp = 1;
  EXPECT_EQ(broken_name(set, candidate), "");
  EXPECT_EQ(setting(set, candidate, "expert_tensor_parallel_size"), "1");

  candidate.cp = candidate.dp = 1;
  EXPECT_EQ(broken_name(set, candidate), "") << "expert-DP is 2·1·1 / (2·1) = 1";
  candidate.etp = 0;
  EXPECT_EQ(broken_name(set, candidate), "expert-ranks");
  expect_contains(explanation(set, candidate), "ETP 2 (inherited from tp) = 4");
}

// pytorch/torchtitan pull requests 4258 and 4794
TEST(Cases, ExpertsAreCarvedOutOfShardedRanks) {
  const RuleSet& set = rule_set("torchtitan");
  Candidate candidate;
  candidate.model.experts = 60;
  candidate.devices = 8;
  candidate.dp = candidate.dp_inner = 4;
  candidate.cp = 1;
  candidate.tp = 2;
  candidate.etp = 1;
  candidate.zero = 3;
  candidate.shard = model::ShardSpan::kAll;
  Numbers taken;
  for (const std::int64_t ep : {2, 3, 4, 8}) {
    candidate.ep = ep;
    if (set.broken(candidate) == nullptr) taken.push_back(ep);
  }
  EXPECT_EQ(taken, (Numbers{2, 4}));

  candidate.ep = 3;
  EXPECT_EQ(set.broken(candidate, Scope::kStrategy), nullptr) << "3 divides 60";
  EXPECT_EQ(explanation(set, candidate),
            "EP 3 in dp 4 · cp 1 · tp 2 = 8 ranks; nearest: EP 2 or 4");
  candidate.ep = 8;
  EXPECT_EQ(explanation(set, candidate), "60 experts over EP 8 leave 4; nearest: EP 6 or 10");

  // pull request 4794: EP is at least tp
  candidate.ep = 1;
  EXPECT_EQ(broken_name(set, candidate), "expert-degree");
  EXPECT_EQ(explanation(set, candidate), "EP 1 with tp 2 for 60 experts; nearest: EP 2");
  candidate.ep = 2;
  candidate.etp = 2;
  EXPECT_EQ(broken_name(set, candidate), "expert-tensor");
  candidate.etp = 1;
  candidate.ep = 8;

  // whole copies in two pods: only 2·1·2 ranks share experts
  candidate.model.experts = 64;
  EXPECT_EQ(broken_name(set, candidate), "");
  candidate.shard = model::ShardSpan::kPod;
  candidate.dp_inner = 2;
  EXPECT_EQ(broken_name(set, candidate), "expert-shards");
  candidate.ep = 4;
  EXPECT_EQ(broken_name(set, candidate), "");
}

// verl-project/verl issue 1226
TEST(Cases, TradedHeadsAllowReplicatedKvHeads) {
  const auto change = [](Candidate& c, std::int64_t cp) {
    c.model.heads = 40;
    c.model.kv_heads = 8;
    c.tp = 1;
    c.cp = cp;
    c.context = model::ContextForm::kAllToAll;
  };
  EXPECT_EQ(legal(rule_set("deepspeed"), 40, change), (Numbers{1, 2, 4, 8, 40}));
  EXPECT_EQ(legal(rule_set("megatron"), 40, change), (Numbers{1, 2, 4, 8}))
      << "which does not replicate KV heads over cp";
  EXPECT_EQ(legal(rule_set("torchtitan"), 40, change), (Numbers{1})) << "which has rings alone";
}

// deepspeedai/DeepSpeed issues 1629 and 4164
TEST(Cases, ShardedGradientsAndPipelinesExcludeEachOther) {
  const RuleSet& set = rule_set("deepspeed");
  Candidate candidate;
  candidate.devices = 16;
  candidate.tp = candidate.cp = 1;
  for (const std::int64_t pp : {1, 2, 4, 8, 16}) {
    for (int zero = 0; zero <= 3; ++zero) {
      candidate.pp = pp;
      candidate.zero = zero;
      const bool excluded = pp > 1 && zero >= 2;
      EXPECT_EQ(broken_name(set, candidate), excluded ? "zero-stages" : "") << pp << " " << zero;
      EXPECT_EQ(setting(set, candidate, "no_pipeline_parallel"),
                pp == 1 && zero >= 2 ? "true" : "");
      EXPECT_EQ(setting(set, candidate, "zero_optimization.stage"), std::to_string(zero));
    }
  }
}

// pytorch/torchtitan pull request 784, pytorch/PiPPy issue 1143
TEST(Cases, TorchPipelinesSplitTheLocalBatch) {
  const RuleSet& set = rule_set("torchtitan");
  const auto taken = [&](model::Schedule schedule) {
    Numbers numbers;
    for (const std::int64_t microbatches : {2, 3, 4, 8}) {
      Candidate candidate;
      candidate.global_batch = 8;
      candidate.dp = 1;
      candidate.pp = 3;
      candidate.vpp = 1;
      candidate.microbatches = microbatches;
      candidate.schedule = schedule;
      if (set.broken(candidate) == nullptr) numbers.push_back(microbatches);
      if (microbatches == 3) {
        EXPECT_EQ(explanation(set, candidate),
                  "local batch 8 in 3 micro-batches leaves 2; nearest: 2 or 4 micro-batches");
      }
    }
    return numbers;
  };
  EXPECT_EQ(taken(model::Schedule::k1F1B), (Numbers{4, 8}));
  EXPECT_EQ(taken(model::Schedule::kGPipe), (Numbers{2, 4, 8}));
}

// NVIDIA/Megatron-LM issue 1587, NVIDIA-NeMo/Speech pull request 8869
TEST(Cases, ExpertsTurnSequenceParallelismOn) {
  const RuleSet& set = rule_set("megatron");
  Candidate candidate;
  candidate.model.experts = 8;
  candidate.tp = 2;
  EXPECT_EQ(broken_name(set, candidate), "");
  EXPECT_EQ(setting(set, candidate, "sequence_parallel"), "true");
  candidate.sequence_parallel = false;
  EXPECT_EQ(broken_name(set, candidate), "expert-sequence");
  candidate.tp = 1;
  EXPECT_EQ(broken_name(set, candidate), "");
}

TEST(Cases, Fp8NeedsSequencesInSixteens) {
  for (const char* name : {"megatron", "torchtitan"}) {
    const RuleSet& set = rule_set(name);
    Candidate candidate;
    candidate.precision = "fp8";
    candidate.tp = 1;
    for (const std::int64_t cp : {1, 2}) {
      candidate.cp = cp;
      candidate.model.sequence = 184 * cp;
      EXPECT_EQ(broken_name(set, candidate), "fp8-sequence") << name;
      expect_contains(explanation(set, candidate), "176 or 192, so pad the sequence from " +
                                                       std::to_string(184 * cp) + " to " +
                                                       std::to_string(192 * cp));
      candidate.model.sequence = 192 * cp;
      EXPECT_EQ(broken_name(set, candidate), "");
    }
    candidate.model.sequence = 184;
    candidate.cp = 1;
    candidate.precision = "bf16";
    EXPECT_EQ(broken_name(set, candidate), "");
  }
}

// alpa takes powers of two alone
TEST(Cases, SixDevicesOfANodeAreSplitByTheirDivisors) {
  for (const std::string& name : rule_set_names()) {
    for (const auto& [tp, pp, dp] :
         std::vector<std::array<std::int64_t, 3>>{{6, 1, 4}, {3, 2, 4}}) {
      Candidate candidate;
      candidate.model.heads = 48;
      candidate.model.blocks = 24;
      candidate.devices = 24;
      candidate.cp = candidate.vpp = 1;
      candidate.tp = tp;
      candidate.pp = pp;
      candidate.dp = dp;
      candidate.layout = Layout::kEven;
      EXPECT_EQ(broken_name(rule_set(name), candidate), "") << name << " tp " << tp;
    }
  }
}

// RulinShao/LightSeq issue 3, aliyun/SimAI issue 298: each degree by itself, and none
TEST(Cases, SingleDegreesAreLegal) {
  for (const std::string& name : rule_set_names()) {
    for (const auto member : {&Candidate::tp, &Candidate::cp, &Candidate::dp, &Candidate::pp,
                              &Candidate::ep, &Candidate::devices}) {
      Candidate candidate;
      candidate.model = {.heads = 32,
                         .kv_heads = 8,
                         .hidden = 4096,
                         .ffn = 14336,
                         .vocabulary = 32000,
                         .sequence = 4096,
                         .blocks = 32,
                         .experts = 8,
                         .expert_ffn = 14336};
      candidate.precision = "bf16";
      candidate.tp = candidate.cp = candidate.dp = candidate.pp = candidate.ep = 1;
      candidate.vpp = candidate.dp_inner = candidate.micro_batch = 1;
      candidate.devices = 8;
      candidate.global_batch = 64;
      candidate.*member = 8;
      const bool staged = name == "deepspeed" && member == &Candidate::pp;
      if (staged) candidate.model.experts = candidate.model.expert_ffn = 0;  // they have no stages
      candidate.dp_inner = candidate.dp;
      const bool whole = name == "torchtitan";  // its experts are not split by tp
      candidate.etp = whole ? 1 : candidate.tp;
      if (whole && member == &Candidate::tp) candidate.ep = 8;
      if (member == &Candidate::ep) candidate.dp = 8;  // experts live on copies
      candidate.schedule = model::Schedule::k1F1B;
      candidate.context =
          name == "deepspeed" ? model::ContextForm::kAllToAll : model::ContextForm::kRing;
      candidate.microbatches = 64 / candidate.dp;
      candidate.layout = Layout::kEven;
      EXPECT_EQ(broken_name(rule_set(name), candidate), "")
          << name << ": " << explanation(rule_set(name), candidate);
    }
  }
}

}  // namespace
}  // namespace nestplan::targets

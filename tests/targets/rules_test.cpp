#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "nestplan/targets/overlap.hpp"
#include "nestplan/targets/targets.hpp"
#include "util/expect_error.hpp"

namespace nestplan::targets {
namespace {

using test::expect_contains;
using Layout = model::StageConstraints::Layout;

constexpr int kDraws = 60'000;

/// Candidates with sizes that do and do not divide, everything now and then unknown.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  Candidate operator()() {
    Candidate c = configuration();
    c.pp = of({1, 2, 3, 4});
    c.vpp = of({0, 1, 2, 3});
    c.schedule = maybe(std::vector{model::Schedule::k1F1B, model::Schedule::kGPipe});
    c.layout = maybe(std::vector{Layout::kAny, Layout::kFirstLast, Layout::kEven});
    c.first_layers = of({0, 3, 20});
    c.last_layers = of({0, 1, 20});
    c.overlap_p2p = flag();
    c.predictions_apart = flag();
    c.per_stage_strategies = flag();
    c.zero = maybe(std::vector{0, 1, 2, 3});
    c.shard = maybe(std::vector{model::ShardSpan::kAll, model::ShardSpan::kPod});
    c.recompute = maybe(std::vector{model::Recompute::kNone, model::Recompute::kSelective,
                                    model::Recompute::kFull});
    c.per_stage_zero = flag();
    c.per_stage_recompute = flag();
    return c;
  }

  Candidate configuration() {
    Candidate c = strategy();
    c.devices = of({0, 8, 16, 24});
    c.global_batch = of({0, 8, 30, 64});
    c.dp = of({1, 2, 4});
    c.dp_inner = c.dp == 4 ? of({1, 2, 4}) : 1;
    c.microbatches = of({0, 2, 3, 4, 5, 8});
    return c;
  }

  Candidate strategy() {
    Candidate c;
    c.model = {.heads = of({0, 12, 40, 52}),
               .kv_heads = of({0, 2, 8}),
               .hidden = of({0, 4096, 4100}),
               .ffn = of({0, 11008, 11001}),
               .vocabulary = of({0, 50257}),
               .sequence = of({0, 184, 4096, 4098}),
               .blocks = of({0, 8, 20, 61}),
               .experts = of({0, 8, 60}),
               .expert_ffn = of({0, 1408, 1001}),
               .encoder_blocks = of({0, 4}),
               .windows = of({0, 8}),
               .sinks = of({0, 8}),
               .predictions = of({0, 0, 1, 2}),
               .kind = kinds()};
    c.precision = std::vector<std::string>{"", "bf16", "fp16", "fp8", "mxfp8"}[index(5)];
    c.tied_embeddings = flag();
    c.chain = flag();
    c.tp = of({1, 2, 3, 8});
    c.cp = of({1, 2, 3});
    c.ep = of({0, 1, 2, 3, 8});
    c.etp = of({0, 1, 2});
    c.micro_batch = of({0, 1, 2});
    c.sequence_parallel = flag();
    c.context = maybe(std::vector{model::ContextForm::kRing, model::ContextForm::kAllToAll});
    return c;
  }

 private:
  model::ModelKind kinds() {
    using Kind = model::ModelKind;
    return std::vector{Kind::kOther,   Kind::kDecoder,        Kind::kDecoder,
                       Kind::kEncoder, Kind::kEncoderDecoder, Kind::kUNet}[index(6)];
  }
  std::size_t index(std::size_t size) { return random_() % size; }
  std::int64_t of(std::vector<std::int64_t> values) { return values[index(values.size())]; }
  template <typename Value>
  std::optional<Value> maybe(const std::vector<Value>& values) {
    const std::size_t chosen = index(values.size() + 1);
    if (chosen == values.size()) return std::nullopt;
    return values[chosen];
  }
  std::optional<bool> flag() {
    const std::size_t chosen = index(3);
    if (chosen == 2) return std::nullopt;
    return chosen == 1;
  }

  std::mt19937 random_;
};

class EveryRuleSet : public testing::TestWithParam<std::string> {
 protected:
  const RuleSet& set() const { return rule_set(GetParam()); }
};

TEST_P(EveryRuleSet, SaysNothingAboutWhatIsNotKnown) {
  EXPECT_EQ(set().broken(Candidate{}), nullptr);
  for (const Rule& rule : set().rules()) EXPECT_FALSE(rule.broken(Candidate{})) << rule.name;
  EXPECT_TRUE(set().settings(Candidate{}).empty());
}

TEST_P(EveryRuleSet, ModelsAloneBreakNothing) {
  Draw draw(1);
  for (int i = 0; i < 1000; ++i) {
    Candidate candidate;
    candidate.model = draw().model;
    EXPECT_EQ(set().broken(candidate), nullptr);
  }
}

TEST_P(EveryRuleSet, HasRulesThatAreAllBrokenAndAllKept) {
  Draw draw(2);
  std::map<std::string, int> broken;
  for (int i = 0; i < kDraws; ++i) {
    const Candidate candidate = draw();
    for (const Rule& rule : set().rules()) broken[rule.name] += rule.broken(candidate) ? 1 : 0;
  }
  for (const Rule& rule : set().rules()) {
    EXPECT_GT(broken[rule.name], 0) << rule.name;
    EXPECT_LT(broken[rule.name], kDraws) << rule.name;
  }
}

TEST_P(EveryRuleSet, ExplainsWithNumbersAndTheNearest) {
  Draw draw(3);
  for (int i = 0; i < kDraws / 20; ++i) {
    const Candidate candidate = draw();
    for (const Rule& rule : set().rules()) {
      if (!rule.broken(candidate)) continue;
      const std::string text = rule.explain(candidate);
      expect_contains(text, "nearest: ");
      const bool counts =
          std::string(rule.name) != "model" && std::string(rule.name) != "selective";
      EXPECT_TRUE(!counts || std::any_of(text.begin(), text.end(), [](unsigned char each) {
        return std::isdigit(each) != 0;
      })) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_LT(text.size(), 240U) << text;
    }
  }
}

/// What a rule suggests another number for.
using Change = void (*)(Candidate&, std::int64_t);

const std::map<std::string, Change> kSuggested{
    {"heads", [](Candidate& c, std::int64_t n) { c.tp = n; }},
    {"kv-heads", [](Candidate& c, std::int64_t n) { c.tp = n; }},
    {"ffn", [](Candidate& c, std::int64_t n) { c.tp = n; }},
    {"expert-ffn", [](Candidate& c, std::int64_t n) { c.etp = n; }},
    {"experts", [](Candidate& c, std::int64_t n) { c.ep = n; }},
    {"expert-model", [](Candidate& c, std::int64_t n) { c.ep = n; }},
    {"expert-tensor", [](Candidate& c, std::int64_t n) { c.etp = n; }},
    {"expert-degree", [](Candidate& c, std::int64_t n) { c.ep = n; }},
    {"context", [](Candidate& c, std::int64_t n) { c.model.sequence = n; }},
    {"context-heads", [](Candidate& c, std::int64_t n) { c.cp = n; }},
    {"sequence", [](Candidate& c, std::int64_t n) { c.model.sequence = n; }},
    {"batch", [](Candidate& c, std::int64_t n) { c.global_batch = n; }},
    {"expert-ranks", [](Candidate& c, std::int64_t n) { c.ep = n; }},
    {"expert-world", [](Candidate& c, std::int64_t n) { c.etp = n; }},
    {"microbatches", [](Candidate& c, std::int64_t n) { c.microbatches = n; }},
    {"interleaving-groups", [](Candidate& c, std::int64_t n) { c.microbatches = n; }},
    {"interleaving-rounds", [](Candidate& c, std::int64_t n) { c.microbatches = n; }},
    {"layers", [](Candidate& c, std::int64_t n) { c.pp = n; }},
    {"expert-shards", [](Candidate& c, std::int64_t n) { c.ep = n; }},
};

/// The one or two numbers behind "nearest: ".
std::vector<std::int64_t> suggestions(const std::string& explanation) {
  const std::string mark = "nearest: ";
  std::vector<std::int64_t> found;
  const std::size_t begin = explanation.find(mark);
  if (begin == std::string::npos) return found;
  std::istringstream words(explanation.substr(begin + mark.size()));
  std::string word;
  for (int n = 0; n < 4 && words >> word; ++n) {
    const bool number = std::isdigit(static_cast<unsigned char>(word.front())) != 0;
    if (number) {
      found.push_back(std::stoll(word));
    } else if (n > 0 && word != "or") {
      break;
    }
    if (word.back() == ';' || word.back() == ',') break;
  }
  return found;
}

TEST_P(EveryRuleSet, SuggestsWhatIsLegal) {
  Draw draw(7);
  std::map<std::string, int> tried;
  for (int i = 0; i < kDraws / 20; ++i) {
    const Candidate candidate = draw();
    for (const Rule& rule : set().rules()) {
      const auto change = kSuggested.find(rule.name);
      if (change == kSuggested.end() || !rule.broken(candidate)) continue;
      for (const std::int64_t number : suggestions(rule.explain(candidate))) {
        Candidate better = candidate;
        change->second(better, number);
        EXPECT_FALSE(rule.broken(better)) << rule.name << ": " << rule.explain(candidate);
        ++tried[rule.name];
      }
    }
  }
  for (const Rule& rule : set().rules()) {
    if (kSuggested.count(rule.name) != 0) {
      EXPECT_GT(tried[rule.name], 0) << rule.name;
    }
  }
}

TEST_P(EveryRuleSet, RulesLookAtNothingBeyondTheirScope) {
  for (unsigned seed = 0; seed < 6000; ++seed) {
    // the same candidate, of which less and less is known
    const Candidate whole = Draw(seed)();
    Candidate pipeline = whole;
    pipeline.zero.reset();
    pipeline.shard.reset();
    pipeline.recompute.reset();
    pipeline.per_stage_zero.reset();
    pipeline.per_stage_recompute.reset();
    const Candidate configuration = Draw(seed).configuration();
    const Candidate strategy = Draw(seed).strategy();
    for (const Rule& rule : set().rules()) {
      const bool broken = rule.broken(whole);
      if (rule.scope <= Scope::kPipeline) {
        EXPECT_EQ(rule.broken(pipeline), broken) << rule.name;
      }
      if (rule.scope <= Scope::kConfiguration) {
        EXPECT_EQ(rule.broken(configuration), broken) << rule.name;
      }
      if (rule.scope <= Scope::kStrategy) {
        EXPECT_EQ(rule.broken(strategy), broken) << rule.name;
      }
    }
  }
}

TEST_P(EveryRuleSet, FindsTheFirstBrokenRuleOfAScope) {
  Draw draw(5);
  for (int i = 0; i < kDraws / 10; ++i) {
    const Candidate candidate = draw();
    for (const Scope scope :
         {Scope::kStrategy, Scope::kConfiguration, Scope::kPipeline, Scope::kStage}) {
      const Rule* expected = nullptr;
      for (const Rule& rule : set().rules()) {
        if (expected == nullptr && rule.scope == scope && rule.broken(candidate)) expected = &rule;
      }
      EXPECT_EQ(set().broken(candidate, scope), expected);
    }
  }
}

TEST_P(EveryRuleSet, IsDescribed) {
  EXPECT_EQ(set().name(), GetParam());
  EXPECT_FALSE(set().version().empty());
  std::set<std::string> names;
  Scope scope = Scope::kStrategy;
  for (const Rule& rule : set().rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name << " twice";
    EXPECT_GE(rule.scope, scope) << rule.name << ": rules are listed by scope";
    scope = rule.scope;
    EXPECT_EQ(std::string(rule.says).back(), '.') << rule.name;
    EXPECT_NE(std::string(rule.source), "") << rule.name;
  }
  EXPECT_TRUE(set().expresses(Layout::kEven));
}

TEST_P(EveryRuleSet, ExplainsItsSettings) {
  Draw draw(6);
  for (int i = 0; i < kDraws / 20; ++i) {
    std::set<std::string> keys;
    for (const Setting& setting : set().settings(draw())) {
      EXPECT_TRUE(keys.insert(setting.key).second) << setting.key << " twice";
      EXPECT_FALSE(setting.value.empty()) << setting.key;
      EXPECT_FALSE(setting.why.empty()) << setting.key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryRuleSet, testing::ValuesIn(rule_set_names()),
                         [](const auto& instance) { return instance.param; });

TEST(RuleSets, AreKnownByName) {
  EXPECT_EQ(rule_set_names(),
            (std::vector<std::string>{"any", "megatron", "deepspeed", "torchtitan"}));
  expect_contains(test::message_of<InvalidConfig>([] { rule_set("megatrn"); }),
                  "unknown framework \"megatrn\" (did you mean \"megatron\"?)");
}

TEST(RuleSets, ExpressLayouts) {
  EXPECT_TRUE(rule_set("megatron").expresses(Layout::kFirstLast));
  EXPECT_TRUE(rule_set("torchtitan").expresses(Layout::kAny));
  EXPECT_FALSE(rule_set("deepspeed").expresses(Layout::kAny));
}

TEST(Megatron, InterleavesInGroupsAndChunks) {
  const RuleSet& set = rule_set("megatron");
  Candidate candidate;
  candidate.model.blocks = 32;
  candidate.pp = 4;
  candidate.vpp = 2;
  candidate.layout = Layout::kEven;
  candidate.microbatches = 16;
  EXPECT_EQ(set.broken(candidate), nullptr);
  candidate.microbatches = 18;
  EXPECT_STREQ(set.broken(candidate)->name, "interleaving-groups");
  expect_contains(set.broken(candidate)->explain(candidate), "leave 2; nearest: 16 or 20");
  candidate.microbatches = 16;
  candidate.vpp = 3;
  EXPECT_STREQ(set.broken(candidate)->name, "layers");
  candidate.layout = Layout::kAny;
  EXPECT_EQ(set.broken(candidate), nullptr) << "a layout of its own";
}

TEST(Megatron, SplitsTheRestOfTheLayersEvenly) {
  const RuleSet& set = rule_set("megatron");
  Candidate candidate;
  candidate.model.blocks = 61;
  candidate.pp = 4;
  candidate.vpp = 1;
  candidate.layout = Layout::kFirstLast;
  candidate.first_layers = 15;
  candidate.last_layers = 14;
  EXPECT_EQ(set.broken(candidate), nullptr) << "16 in each of the others";
  candidate.last_layers = 13;
  EXPECT_STREQ(set.broken(candidate)->name, "middle-layers");
  candidate.last_layers = 14;
  candidate.vpp = 2;
  EXPECT_STREQ(set.broken(candidate)->name, "middle-layers") << "15 is odd";
}

TEST(Megatron, ShardsGradientsWithoutPipelinesAlone) {
  const RuleSet& set = rule_set("megatron");
  for (const std::int64_t pp : {1, 4}) {
    for (int zero = 0; zero <= 3; ++zero) {
      Candidate candidate;
      candidate.pp = pp;
      candidate.zero = zero;
      EXPECT_EQ(set.broken(candidate) != nullptr, pp > 1 && zero >= 2) << pp << " " << zero;
    }
  }
}

TEST(Megatron, PodsDivideTheCopiesOfExperts) {
  const RuleSet& set = rule_set("megatron");
  Candidate candidate;
  candidate.model.experts = 8;
  candidate.tp = candidate.cp = candidate.pp = candidate.etp = 1;
  candidate.dp = 8;
  candidate.dp_inner = 2;
  candidate.ep = 2;
  candidate.zero = 1;
  candidate.shard = model::ShardSpan::kPod;
  EXPECT_EQ(set.broken(candidate), nullptr) << "4 copies of each shard of experts in 4 pods";
  candidate.ep = 4;
  EXPECT_STREQ(set.broken(candidate)->name, "partial-experts");
  const std::vector<Setting> settings = set.settings(candidate);
  EXPECT_TRUE(std::any_of(settings.begin(), settings.end(), [](const Setting& each) {
    return each.key == "num_distributed_optimizer_instances" && each.value == "4";
  }));
}

TEST(Megatron, ReplicatesKvHeads) {
  Candidate candidate;
  candidate.model.kv_heads = 8;
  for (const auto& [tp, legal] : std::map<std::int64_t, bool>{{4, true}, {16, true}, {12, false}}) {
    candidate.tp = tp;
    EXPECT_EQ(rule_set("megatron").broken(candidate) == nullptr, legal) << tp;
  }
  candidate.tp = 16;
  EXPECT_NE(rule_set("torchtitan").broken(candidate), nullptr);
}

TEST(Torchtitan, ZeroDependsOnThePipeline) {
  const RuleSet& set = rule_set("torchtitan");
  std::set<std::pair<std::int64_t, int>> legal;
  for (const std::int64_t pp : {1, 2}) {
    for (int zero = 0; zero <= 3; ++zero) {
      Candidate candidate;
      candidate.tp = candidate.cp = 1;
      candidate.shard = model::ShardSpan::kAll;
      candidate.dp = 4;
      candidate.pp = pp;
      candidate.zero = zero;
      if (set.broken(candidate) == nullptr) legal.emplace(pp, zero);
      candidate.dp = 1;
      EXPECT_EQ(set.broken(candidate), nullptr) << "one copy: nothing is sharded";
    }
  }
  EXPECT_EQ(legal, (std::set<std::pair<std::int64_t, int>>{{1, 0}, {1, 2}, {1, 3}, {2, 1}}));
}

/// torchtitan/models/llama3/infra/parallelize.py: "DDP has not supported > 1D parallelism".
TEST(Torchtitan, CopiesOfSplitModelsNeedFsdp) {
  const RuleSet& set = rule_set("torchtitan");
  Candidate candidate;
  candidate.tp = 2;
  candidate.cp = candidate.pp = 1;
  candidate.dp = 4;
  candidate.zero = 0;
  candidate.shard = model::ShardSpan::kAll;
  ASSERT_NE(set.broken(candidate), nullptr);
  EXPECT_STREQ(set.broken(candidate)->name, "plain-copies");
  EXPECT_EQ(set.broken(candidate)->explain(candidate),
            "ZeRO 0 with 4 copies of tp 2 · pp 1; nearest: ZeRO 2 (FSDP)");
  candidate.zero = 2;
  EXPECT_EQ(set.broken(candidate), nullptr);
  candidate.shard = model::ShardSpan::kPod;
  candidate.dp_inner = 1;  // every copy is a pod: nothing is sharded
  ASSERT_NE(set.broken(candidate), nullptr);
  EXPECT_STREQ(set.broken(candidate)->name, "plain-copies");
  candidate.tp = 1;
  EXPECT_EQ(set.broken(candidate), nullptr) << "DDP of single devices";
}

/// torchtitan/distributed/utils.py, maybe_enable_amp.
TEST(Torchtitan, MixedPrecisionOfSplitModelsNeedsFsdp) {
  const RuleSet& set = rule_set("torchtitan");
  Candidate candidate;
  candidate.tp = 8;
  candidate.cp = candidate.pp = candidate.dp = 1;
  candidate.zero = 0;
  candidate.precision = "bf16";
  ASSERT_NE(set.broken(candidate), nullptr);
  EXPECT_STREQ(set.broken(candidate)->name, "mixed-precision");
  candidate.precision = "fp32";
  EXPECT_EQ(set.broken(candidate), nullptr);
  candidate.precision = "bf16";
  candidate.tp = 1;
  EXPECT_EQ(set.broken(candidate), nullptr);
}

TEST(EveryFp8, Mxfp8IsAlignedToItsBlocks) {
  for (const char* name : {"megatron", "torchtitan"}) {
    Candidate candidate;
    candidate.model.hidden = 4096 + 16;
    candidate.tp = candidate.cp = 1;
    candidate.precision = "fp8";
    EXPECT_EQ(rule_set(name).broken(candidate), nullptr) << name;
    candidate.precision = "mxfp8";
    ASSERT_NE(rule_set(name).broken(candidate), nullptr) << name;
    EXPECT_STREQ(rule_set(name).broken(candidate)->name, "fp8-widths");
    expect_contains(rule_set(name).broken(candidate)->explain(candidate), "not a multiple of 32");
    candidate.model.hidden = 4096;
    candidate.model.sequence = 4096 - 16 * 4;
    candidate.cp = 4;  // 1008 tokens on each
    candidate.tp = 1;
    ASSERT_NE(rule_set(name).broken(candidate), nullptr) << name;
    EXPECT_STREQ(rule_set(name).broken(candidate)->name, "fp8-sequence");
    candidate.precision = "fp8";
    EXPECT_EQ(rule_set(name).broken(candidate), nullptr) << name;
  }
}

/// Whether `target` takes the candidate, or the rule that it breaks.
std::string verdict(const char* target, const Candidate& candidate) {
  const Rule* rule = rule_set(target).broken(candidate);
  return rule == nullptr ? "legal" : rule->name;
}

TEST(Models, AreThoseThatTheFrameworksTrain) {
  using Kind = model::ModelKind;
  const auto of_kind = [](Kind kind) {
    Candidate candidate;
    candidate.model.kind = kind;
    candidate.tp = candidate.cp = candidate.pp = 1;
    return candidate;
  };
  const std::map<Kind, std::vector<std::string>> expected{
      {Kind::kOther, {"legal", "legal", "legal"}},
      {Kind::kDecoder, {"legal", "legal", "legal"}},
      {Kind::kEncoder, {"legal", "legal", "model"}},
      {Kind::kEncoderDecoder, {"legal", "legal", "model"}},
      {Kind::kMultimodal, {"model", "legal", "model"}},
      {Kind::kUNet, {"model", "legal", "model"}},
      {Kind::kDiffusionTransformer, {"model", "legal", "model"}}};
  for (const auto& [kind, verdicts] : expected) {
    const Candidate candidate = of_kind(kind);
    EXPECT_EQ((std::vector{verdict("megatron", candidate), verdict("deepspeed", candidate),
                           verdict("torchtitan", candidate)}),
              verdicts)
        << to_string(kind);
    EXPECT_EQ(verdict("any", candidate), "legal");
  }
  Candidate unet = of_kind(Kind::kUNet);
  expect_contains(
      rule_set("torchtitan").broken(unet)->explain(unet),
      "a U-Net, but what these settings are for trains decoders; nearest: --target any");
  unet.pp = 2;
  EXPECT_EQ(verdict("deepspeed", unet), "model-pipeline");
  unet.tp = 2;
  EXPECT_EQ(verdict("deepspeed", unet), "model");
}

TEST(Models, EncoderDecodersAreSplitWithoutTheirSequence) {
  Candidate pair;
  pair.model.kind = model::ModelKind::kEncoderDecoder;
  pair.tp = 2;
  pair.sequence_parallel = true;
  EXPECT_EQ(verdict("deepspeed", pair), "model");
  pair.sequence_parallel = false;
  EXPECT_EQ(verdict("deepspeed", pair), "legal");
  pair.zero = 3;
  EXPECT_EQ(verdict("deepspeed", pair), "model-zero");
  pair.pp = 2;
  EXPECT_EQ(verdict("megatron", pair), "encoder");
  pair.pp = 1;
  pair.model.blocks = 5;
  pair.model.encoder_blocks = 2;
  EXPECT_EQ(verdict("megatron", pair), "encoder-decoder");
  pair.model.blocks = 4;
  EXPECT_EQ(verdict("megatron", pair), "legal");
}

TEST(Models, PredictionsAreMegatronsAndInOneStage) {
  Candidate candidate;
  candidate.model.predictions = 2;
  candidate.tp = 1;
  candidate.pp = 2;
  for (const char* target : {"deepspeed", "torchtitan"}) {
    EXPECT_EQ(verdict(target, candidate), "predictions") << target;
  }
  EXPECT_EQ(verdict("megatron", candidate), "legal");
  candidate.predictions_apart = true;
  EXPECT_EQ(verdict("megatron", candidate), "predictions-together");
}

TEST(Precisions, AreThoseThatTheFrameworksTrainIn) {
  const std::map<std::string, std::vector<std::string>> expected{
      {"bf16", {"legal", "legal", "legal"}},
      {"fp16", {"legal", "legal", "precision"}},
      {"fp8", {"legal", "precision", "legal"}},
      {"mxfp8", {"legal", "precision", "legal"}}};
  for (const auto& [precision, verdicts] : expected) {
    Candidate candidate;
    candidate.precision = precision;
    EXPECT_EQ((std::vector{verdict("megatron", candidate), verdict("deepspeed", candidate),
                           verdict("torchtitan", candidate)}),
              verdicts)
        << precision;
  }
}

/// NVIDIA/TransformerEngine, attn_forward_func_with_cp and issue 2541.
TEST(Megatron, RingsHaveNeitherWindowsNorSinks) {
  for (const auto member : {&model::Dimensions::windows, &model::Dimensions::sinks}) {
    Candidate candidate;
    candidate.tp = 1;
    candidate.cp = 4;
    candidate.model.*member = 12;
    EXPECT_EQ(verdict("megatron", candidate), "legal") << "the form is not known";
    candidate.context = model::ContextForm::kRing;
    EXPECT_EQ(verdict("megatron", candidate), "context-ring");
    expect_contains(rule_set("megatron").broken(candidate)->explain(candidate),
                    "in 12 layers; nearest: all_to_all, or cp 1");
    candidate.context = model::ContextForm::kAllToAll;
    EXPECT_EQ(verdict("megatron", candidate), "legal");
    candidate.context = model::ContextForm::kRing;
    candidate.cp = 1;
    EXPECT_EQ(verdict("megatron", candidate), "legal");
  }
}

TEST(Torchtitan, SplitsTheSequenceWithTensors) {
  Candidate candidate;
  candidate.tp = 2;
  EXPECT_EQ(verdict("torchtitan", candidate), "legal");
  candidate.sequence_parallel = false;
  EXPECT_EQ(verdict("torchtitan", candidate), "sequence-parallel");
}

TEST(Torchtitan, SelectsOperatorsOfItsOwn) {
  Candidate candidate;
  candidate.recompute = model::Recompute::kSelective;
  EXPECT_EQ(verdict("torchtitan", candidate), "selective");
  EXPECT_EQ(verdict("megatron", candidate), "legal");
}

TEST(DeepSpeed, UlyssesStandsAlone) {
  Candidate candidate;
  candidate.tp = candidate.pp = 1;
  candidate.cp = 2;
  candidate.context = model::ContextForm::kAllToAll;
  EXPECT_EQ(verdict("deepspeed", candidate), "legal");
  candidate.pp = 2;
  EXPECT_EQ(verdict("deepspeed", candidate), "ulysses-pipeline");
  candidate.tp = 2;
  EXPECT_EQ(verdict("deepspeed", candidate), "ulysses-alone");
}

/// deepspeedai/Megatron-DeepSpeed megatron/model/transformer.py, ParallelAttention.forward.
TEST(DeepSpeed, UlyssesWithExpertsHasUngroupedHeads) {
  Candidate candidate;
  candidate.model.heads = 32;
  candidate.model.kv_heads = 8;
  candidate.model.experts = 8;
  candidate.tp = 1;
  candidate.cp = 2;
  candidate.context = model::ContextForm::kAllToAll;
  candidate.ep = 1;
  EXPECT_EQ(verdict("deepspeed", candidate), "legal") << "by DeepSpeed itself";
  candidate.ep = 2;
  EXPECT_EQ(verdict("deepspeed", candidate), "ulysses-experts");
  candidate.model.kv_heads = 32;
  EXPECT_EQ(verdict("deepspeed", candidate), "legal");
}

TEST(DeepSpeed, StagesHoldAsManyLayers) {
  Candidate candidate;
  candidate.pp = 2;
  candidate.layout = Layout::kFirstLast;
  EXPECT_EQ(verdict("deepspeed", candidate), "even-stages");
  candidate.layout = Layout::kEven;
  EXPECT_EQ(verdict("deepspeed", candidate), "legal");
}

TEST(DeepSpeed, ExpertsHaveNoPipeline) {
  Candidate candidate;
  candidate.model.experts = 8;
  candidate.pp = 2;
  const Rule* rule = rule_set("deepspeed").broken(candidate);
  ASSERT_NE(rule, nullptr);
  EXPECT_STREQ(rule->name, "expert-pipeline");
  candidate.pp = 1;
  EXPECT_EQ(rule_set("deepspeed").broken(candidate), nullptr);
}

TEST(DefaultOverlap, HasAShareAndASourceForEveryEntry) {
  EXPECT_TRUE(default_overlap(kAny).none());
  for (const std::string& name : rule_set_names()) {
    SCOPED_TRACE(name);
    const auto entries = hidden_by_default(name);
    EXPECT_EQ(entries.empty(), name == kAny);
    for (const HiddenByDefault& entry : entries) {
      EXPECT_GT(entry.value, 0);
      EXPECT_LE(entry.value, 1);
      EXPECT_EQ(default_overlap(name).*entry.share, entry.value);
      EXPECT_NE(std::string(entry.source), "");
    }
    EXPECT_EQ(default_overlap(name).tensor, 0) << "off unless asked for in all of them";
  }
}

TEST(SetStrategy, CountsExpertsAsFrameworksDo) {
  model::Strategy strategy;
  strategy.tp = 8;
  strategy.ep = 2;
  strategy.etp = 2;
  strategy.sp = 8;
  Candidate candidate;
  candidate.model.experts = 64;
  set_strategy(candidate, strategy);
  EXPECT_EQ(candidate.ep, 8) << "2·8/2";
  EXPECT_EQ(candidate.etp, 2);
  EXPECT_EQ(candidate.sequence_parallel, true);

  strategy.ep = strategy.etp = strategy.sp = 1;
  candidate.model.experts = 0;
  candidate.model.hidden = 4096;
  set_strategy(candidate, strategy);
  EXPECT_EQ(candidate.ep, 1) << "tp of a dense model is no EP";
  EXPECT_EQ(candidate.sequence_parallel, std::nullopt);
  for (const std::string& name : rule_set_names()) {
    EXPECT_EQ(rule_set(name).broken(candidate), nullptr) << name;
  }
}

}  // namespace
}  // namespace nestplan::targets

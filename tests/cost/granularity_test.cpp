#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cost/samples.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/lattice/lattice.hpp"
#include "nestplan/util/errors.hpp"
#include "support/dice.hpp"

namespace nestplan::cost {
namespace {

using model::Architecture;
using model::EncoderDecoder;
using model::LayerCost;
using model::Model;
using model::Multimodal;
using model::Projection;
using model::Tower;
using model::UNet;
using nestplan::testing::Dice;
using test::cost_of;
using test::h100;
using test::layer_of;

constexpr Granularity kAll[] = {Granularity::kLayer, Granularity::kBlock, Granularity::kOperator};

/// Every width a multiple of 4.
Architecture small_stack(std::int64_t layers = 2) {
  Architecture a;
  a.name = a.family = "small";
  a.layers = layers;
  a.hidden = 64;
  a.heads = a.kv_heads = 8;
  a.head_dim = 8;
  a.ffn = 96;
  a.vocab = 1000;
  return a;
}

Architecture random_stack(Dice& dice) {
  Architecture a = small_stack(dice.between(1, 3));
  a.kv_heads = dice.pick({4, 8});
  a.head_dim = dice.pick({8, 16});
  a.norm = dice.pick({model::NormKind::kLayerNorm, model::NormKind::kRmsNorm});
  a.causal = dice.chance(70);
  a.gated_mlp = dice.chance(50);
  a.rotary = dice.chance(50);
  a.qk_norm = dice.chance(30);
  a.parallel_block = dice.chance(30);
  a.post_norm = !a.parallel_block && dice.chance(30);
  if (a.parallel_block) a.input_norms = static_cast<int>(dice.between(1, 2));
  if (!a.parallel_block && !a.post_norm && dice.chance(30)) a.output_norms = 2;
  a.bias = {.qkv = dice.chance(50),
            .key = dice.chance(50),
            .attention_output = dice.chance(50),
            .mlp = dice.chance(50),
            .head = dice.chance(30)};
  a.hidden_dropout = dice.chance(50);
  a.embedding_norm = dice.chance(30);
  a.mlm_transform = dice.chance(30);
  a.pooler = dice.chance(30);
  a.token_types = dice.pick({0, 2});
  a.relative_buckets = dice.pick({0, 32});
  if (dice.chance(30)) a.windows.assign(static_cast<std::size_t>(a.layers), 16);
  return a;
}

EncoderDecoder small_t5(std::int64_t encoder_layers = 3, std::int64_t decoder_layers = 2) {
  EncoderDecoder t5;
  t5.name = t5.family = "t5";
  t5.encoder = small_stack(encoder_layers);
  t5.encoder.causal = false;
  t5.decoder = small_stack(decoder_layers);
  t5.encoder.relative_buckets = t5.decoder.relative_buckets = 32;
  t5.decoder.cross_width = t5.encoder.hidden;
  return t5;
}

Tower small_tower(const std::string& id, std::int64_t layers) {
  Tower tower;
  tower.id = id;
  tower.blocks = small_stack(layers);
  tower.blocks.vocab = 0;
  tower.blocks.causal = false;
  tower.tokens = 64;
  tower.merge = 4;
  tower.stem = {{.in = 48, .out = 64, .kept = 48}};
  tower.projector = {{.tokens = 4, .in = 256, .out = 64, .kept = 256}};
  return tower;
}

Multimodal small_towers(std::int64_t vision = 3, std::int64_t audio = 2, std::int64_t text = 2) {
  Multimodal model;
  model.name = model.family = "towers";
  model.towers = {small_tower("vision", vision), small_tower("audio", audio)};
  model.towers[1].averaged = model.towers[1].positions = true;
  model.towers[1].projector = {{.tokens = 4, .in = 64, .out = 64, .kept = 64}};
  model.text = small_stack(text);
  return model;
}

UNet small_unet() {
  UNet unet = test::small_unet();
  unet.added_width = 40;
  return unet;
}

ProfileOptions options(Granularity granularity = Granularity::kLayer) {
  ProfileOptions o;
  o.sequence = 128;
  o.tp = {1, 2, 4};
  o.micro_batches = {1, 2};
  o.granularity = granularity;
  return o;
}

/// What the layers of a column add up to, the bytes of collectives by what they are.
struct Sums {
  double forward_s = 0;
  double backward_s = 0;
  double parameters = 0;
  double activation_bytes = 0;
  std::map<std::tuple<model::Phase, model::CollectiveOp, double>, int> collectives;
};

Sums sums(const model::Graph& graph, std::size_t strategy, const std::string& prefix = "") {
  Sums s;
  for (const model::Layer& layer : graph.layers) {
    if (layer.id != prefix && !layer.id.starts_with(prefix.empty() ? "" : prefix + ".")) continue;
    const LayerCost& cost = layer.costs.at(strategy).value();
    s.forward_s += cost.forward_s;
    s.backward_s += cost.backward_s;
    s.parameters += cost.parameters;
    s.activation_bytes += cost.activation_bytes;
    for (const model::Collective& c : cost.collectives) ++s.collectives[{c.phase, c.op, c.bytes}];
  }
  return s;
}

void expect_equal(const Sums& whole, const Sums& parts) {
  // the order of the additions differs
  EXPECT_NEAR(parts.forward_s, whole.forward_s, 1e-13 * whole.forward_s);
  EXPECT_NEAR(parts.backward_s, whole.backward_s, 1e-13 * whole.backward_s);
  EXPECT_EQ(parts.parameters, whole.parameters);
  EXPECT_EQ(parts.activation_bytes, whole.activation_bytes);
  EXPECT_EQ(parts.collectives, whole.collectives);
}

/// At every granularity a layer's parts add up to the layer, and checkpoints are what comes in.
void expect_parts_add_up(const Model& model, const ProfileOptions& base) {
  ProfileOptions o = base;
  o.granularity = Granularity::kLayer;
  const model::Graph layers = build_graph(model, h100(), o);
  for (const Granularity granularity : {Granularity::kBlock, Granularity::kOperator}) {
    o.granularity = granularity;
    const model::Graph parts = build_graph(model, h100(), o);
    ASSERT_EQ(parts.strategies.size(), layers.strategies.size());
    EXPECT_GE(parts.layers.size(), layers.layers.size());
    EXPECT_EQ(parts.model_flops_per_sample, layers.model_flops_per_sample);
    for (std::size_t s = 0; s < layers.strategies.size(); ++s) {
      for (const model::Layer& layer : layers.layers) {
        SCOPED_TRACE(std::string(to_string(granularity)) + " " + layers.strategies[s].id + " " +
                     layer.id);
        expect_equal(sums(layers, s, layer.id), sums(parts, s, layer.id));
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

void expect_checkpoints_are_inputs(const model::Graph& graph) {
  for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
    std::vector<double> incoming(graph.layers.size(), 0);
    for (const model::Edge& edge : graph.edges) {
      incoming[static_cast<std::size_t>(edge.to)] += edge.bytes[s];
    }
    for (std::size_t i = 0; i < graph.layers.size(); ++i) {
      const std::string& id = graph.layers[i].id;
      const double kept = graph.layers[i].costs[s]->checkpoint_bytes;
      if (id.ends_with("embedding") || incoming[i] == 0) {
        EXPECT_GT(kept, incoming[i]) << id;  // token ids, patches, text states
      } else {
        EXPECT_EQ(kept, incoming[i]) << id;
      }
    }
  }
}

std::map<std::pair<std::string, std::string>, double> edges_of(const model::Graph& graph,
                                                               std::size_t strategy) {
  std::map<std::pair<std::string, std::string>, double> edges;
  for (const model::Edge& edge : graph.edges) {
    edges[{graph.layers[static_cast<std::size_t>(edge.from)].id,
           graph.layers[static_cast<std::size_t>(edge.to)].id}] = edge.bytes.at(strategy);
  }
  return edges;
}

std::int64_t downsets(const Model& model, Granularity granularity) {
  return lattice::Lattice::enumerate(build_outline(model, options(granularity))).size();
}

TEST(Granularity, PartsOfAnyTransformerAddUpToItsLayers) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const Architecture a = random_stack(dice);
    ProfileOptions o = options();
    o.sequence_parallel = dice.chance(70);
    o.precision = dice.chance(30) ? "fp8" : "bf16";
    expect_parts_add_up(a, o);
    if (HasFailure()) return;
  }
}

TEST(Granularity, PartsOfComposedModelsAddUpToTheirLayers) {
  for (const bool sequence_parallel : {true, false}) {
    ProfileOptions o = options();
    o.sequence_parallel = sequence_parallel;
    EncoderDecoder t5 = small_t5();
    t5.decoder.hidden_dropout = true;
    o.tokens = {{"decoder", 32}};
    expect_parts_add_up(t5, o);
    o.tokens.clear();
    expect_parts_add_up(small_towers(), o);
    expect_parts_add_up(small_unet(), o);
  }
}

TEST(Granularity, CheckpointsAreWhatComesIn) {
  for (const Granularity granularity : kAll) {
    for (const Model& model :
         {Model(small_stack()), Model(small_t5()), Model(small_towers()), Model(small_unet())}) {
      SCOPED_TRACE(name_of(model) + " " + to_string(granularity));
      expect_checkpoints_are_inputs(build_graph(model, h100(), options(granularity)));
    }
  }
}

TEST(Granularity, LayersFallIntoBlocksAndOperators) {
  const Architecture a = small_stack(1);
  const auto ids = [&a](Granularity granularity) {
    std::vector<std::string> list;
    for (const model::Layer& l : build_outline(a, options(granularity)).layers) {
      list.push_back(l.id);
    }
    return list;
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(ids(Granularity::kLayer), (List{"embedding", "layer.0", "head"}));
  EXPECT_EQ(ids(Granularity::kBlock),
            (List{"embedding", "layer.0.attention", "layer.0.mlp", "head"}));
  EXPECT_EQ(ids(Granularity::kOperator),
            (List{"embedding", "layer.0.attention_norm", "layer.0.qkv", "layer.0.attention",
                  "layer.0.attention_out", "layer.0.attention_add", "layer.0.mlp_norm",
                  "layer.0.mlp_in", "layer.0.mlp_act", "layer.0.mlp_out", "layer.0.mlp_add",
                  "head.norm", "head.output", "head.loss"}));
}

TEST(Granularity, OperatorsHandOnTheirOutputsAndTheResidualGoesAround) {
  Architecture a = small_stack(1);
  a.gated_mlp = true;
  const model::Graph graph = build_graph(a, h100(), options(Granularity::kOperator));
  ASSERT_EQ(graph.strategies[2].id, "tp2-mb1");
  const auto edges = edges_of(graph, 2);
  const double state = 128.0 * 64 * 2 / 2;  // sharded along the sequence
  const std::map<std::pair<std::string, std::string>, double> expected{
      {{"embedding", "layer.0.attention_norm"}, state},
      {{"embedding", "layer.0.attention_add"}, state},
      {{"layer.0.attention_norm", "layer.0.qkv"}, state},
      {{"layer.0.qkv", "layer.0.attention"}, 128.0 * 3 * 64 * 2 / 2},
      {{"layer.0.attention", "layer.0.attention_out"}, 128.0 * 64 * 2 / 2},
      {{"layer.0.attention_out", "layer.0.attention_add"}, state},
      {{"layer.0.attention_add", "layer.0.mlp_norm"}, state},
      {{"layer.0.attention_add", "layer.0.mlp_add"}, state},
      {{"layer.0.mlp_norm", "layer.0.mlp_in"}, state},
      {{"layer.0.mlp_in", "layer.0.mlp_act"}, 128.0 * 2 * 96 * 2 / 2},
      {{"layer.0.mlp_act", "layer.0.mlp_out"}, 128.0 * 96 * 2 / 2},
      {{"layer.0.mlp_out", "layer.0.mlp_add"}, state},
      {{"layer.0.mlp_add", "head.norm"}, state},
      {{"head.norm", "head.output"}, state},
      {{"head.output", "head.loss"}, 128.0 * 1024 / 2 * 2}};
  EXPECT_EQ(edges, expected);
}

TEST(Granularity, NormsBehindTheSumFeedTheNextBranch) {
  Architecture a = small_stack(1);
  a.post_norm = true;
  const auto edges = edges_of(build_graph(a, h100(), options(Granularity::kOperator)), 0);
  EXPECT_TRUE(edges.contains({"embedding", "layer.0.qkv"}));
  EXPECT_TRUE(edges.contains({"layer.0.attention_add", "layer.0.attention_norm"}));
  EXPECT_TRUE(edges.contains({"layer.0.attention_norm", "layer.0.mlp_in"}));
  EXPECT_TRUE(edges.contains({"layer.0.attention_norm", "layer.0.mlp_add"}));
  EXPECT_TRUE(edges.contains({"layer.0.mlp_norm", "head.output"}));
}

/// What parallel branches put out are partial sums of all tokens; they are reduced behind the sum.
TEST(Granularity, ParallelBranchesStandSideBySide) {
  Architecture a = small_stack(3);
  a.parallel_block = true;
  a.input_norms = 1;
  const model::Graph graph = build_graph(a, h100(), options(Granularity::kOperator));
  const auto edges = edges_of(graph, 2);
  EXPECT_EQ((edges.at({"layer.0.norm", "layer.0.mlp_in"})), 128.0 * 64 * 2);
  EXPECT_EQ((edges.at({"layer.0.mlp_out", "layer.0.add"})), 128.0 * 64 * 2);
  EXPECT_EQ((edges.at({"layer.0.add", "layer.1.norm"})), 128.0 * 64 * 2 / 2);
  EXPECT_EQ(cost_of(graph, "layer.0.add", 2).collectives.size(), 2U);
  EXPECT_EQ(cost_of(graph, "layer.0.norm", 2).collectives.size(), 3U);
  EXPECT_TRUE(cost_of(graph, "layer.0.mlp_out", 2).collectives.empty());
  // per layer its norm and the 4·4 stages of two branches of three; loss, output, norm, nothing;
  // embedding
  EXPECT_EQ(downsets(a, Granularity::kOperator), 3 * 17 + 5);
  EXPECT_EQ(build_outline(a, options(Granularity::kBlock)).layers.size(), 5U);
}

TEST(Granularity, ActivationsBelongToTheOperatorThatReadsThem) {
  const model::Graph graph = build_graph(small_stack(1), h100(), options(Granularity::kOperator));
  const double row = 128.0 * 64 * 2;
  EXPECT_EQ(cost_of(graph, "layer.0.attention_norm").activation_bytes, row);
  EXPECT_EQ(cost_of(graph, "layer.0.qkv").activation_bytes, row);
  EXPECT_EQ(cost_of(graph, "layer.0.attention").activation_bytes, 3 * row + 128 * 8 * 4);
  EXPECT_EQ(cost_of(graph, "layer.0.attention_out").activation_bytes, row);
  EXPECT_EQ(cost_of(graph, "layer.0.attention_add").activation_bytes, 0);
  EXPECT_EQ(cost_of(graph, "layer.0.mlp_act").activation_bytes, 128.0 * 96 * 2);
}

TEST(Granularity, NamesAreRead) {
  for (const Granularity granularity : kAll) {
    EXPECT_EQ(parse_granularity(to_string(granularity)), granularity);
  }
  EXPECT_THROW(parse_granularity("blok"), InvalidConfig);
}

TEST(EncoderDecoderGraph, EveryDecoderLayerReadsTheEncoder) {
  const model::Graph graph = build_graph(small_t5(3, 2), h100(), options());
  const auto edges = edges_of(graph, 0);
  const double state = 128.0 * 64 * 2;
  for (const char* layer : {"decoder.layer.0", "decoder.layer.1"}) {
    EXPECT_EQ((edges.at({"encoder.norm", layer})), state);
  }
  EXPECT_EQ((edges.at({"decoder.embedding", "decoder.layer.0"})), state);
  EXPECT_FALSE(edges.contains({"encoder.norm", "head"}));
  EXPECT_EQ(graph.edges.size(), 9U);
}

/// The decoder runs behind the whole encoder; its token table stands anywhere before it.
TEST(EncoderDecoderGraph, LatticeBranchesBesideTheEncoder) {
  for (const auto& [encoder, decoder] : {std::pair{3, 2}, {24, 24}}) {
    EXPECT_EQ(downsets(small_t5(encoder, decoder), Granularity::kLayer),
              decoder + 1 + 2 * (encoder + 3));
  }
  // the first layer's self-attention does not need the encoder either
  EXPECT_GT(downsets(small_t5(24, 24), Granularity::kOperator), 2000);
}

TEST(EncoderDecoderGraph, CrossAttentionByHand) {
  ProfileOptions o = options(Granularity::kOperator);
  o.tokens = {{"decoder", 32}};
  EncoderDecoder t5 = small_t5();
  const model::Graph graph = build_graph(t5, h100(), o);
  EXPECT_EQ(graph.tokens_per_sample, 128 + 32);
  const double width = 64;
  // its own rows, the encoder's; then Q of its tokens, K and V of the encoder's, log-sum-exp
  EXPECT_EQ(cost_of(graph, "decoder.layer.0.cross_qkv").activation_bytes, (32 + 128) * width * 2);
  EXPECT_EQ(cost_of(graph, "decoder.layer.0.cross_attention").activation_bytes,
            (32 + 2 * 128) * width * 2 + 32 * 8 * 4);
  EXPECT_EQ(cost_of(graph, "decoder.layer.0.cross_qkv").parameters, 3 * width * width);
  // both kinds of states are gathered
  ASSERT_EQ(graph.strategies[2].id, "tp2-mb1");
  EXPECT_EQ(cost_of(graph, "decoder.layer.0.cross_qkv", 2).collectives.size(), 6U);
  // relative positions belong to the first layer of each stack
  EXPECT_EQ(cost_of(graph, "decoder.layer.0.attention").parameters, 32 * 8);
  EXPECT_EQ(cost_of(graph, "decoder.layer.1.attention").parameters, 0);
}

TEST(EncoderDecoderGraph, FlopsAreThoseOfBothSides) {
  ProfileOptions o = options();
  o.tokens = {{"decoder", 32}};
  const double block = 4 * 64 * 64 + 2 * 64 * 96;
  const double encoder = 3 * (2 * 128 * block + 4 * 128.0 * 128 * 64);
  const double self_attention = 4 * (32.0 * 32 / 2) * 64;
  const double cross = 2 * 32 * 2 * 64.0 * 64 + 2 * 128 * 2 * 64.0 * 64 + 4 * 32.0 * 128 * 64;
  const double decoder = 2 * (2 * 32 * block + self_attention + cross);
  const double head = 2 * 32 * 64.0 * 1000;
  EXPECT_DOUBLE_EQ(model_flops_per_sample(Model(small_t5()), o), 3 * (encoder + decoder + head));
}

TEST(EncoderDecoderGraph, HasThreeCopiesOfATiedTable) {
  EncoderDecoder t5 = small_t5();
  t5.encoder.tied_embeddings = t5.decoder.tied_embeddings = true;
  ProfileOptions o = options();
  o.vocabulary_multiple = 1;
  EXPECT_EQ(sums(build_graph(t5, h100(), o), 0).parameters,
            static_cast<double>(total_parameters(t5) + 2 * 1000 * 64));
}

TEST(TowerGraph, LatticeIsAGridInFrontOfTheLanguageModel) {
  // a tower of n layers has n + 3 suffixes; the language model is behind both
  EXPECT_EQ(downsets(small_towers(3, 2, 2), Granularity::kLayer), 6 * 5 + 4);
  EXPECT_EQ(downsets(small_towers(32, 32, 28), Granularity::kLayer), 35 * 35 + 30);
  EXPECT_EQ(downsets(small_towers(32, 32, 28), Granularity::kBlock), 67 * 67 + 58);
  EXPECT_EQ(downsets(small_towers(4, 3, 2), Granularity::kOperator), 43 * 33 + 24);
}

TEST(TowerGraph, TowersPutTheirOutputsAmongTheTokens) {
  const model::Graph graph = build_graph(small_towers(), h100(), options());
  const auto edges = edges_of(graph, 2);
  EXPECT_EQ((edges.at({"vision.projector", "embedding"})), 64 / 4 * 64.0 * 2 / 2);
  EXPECT_EQ(graph.tokens_per_sample, 128);
  EXPECT_EQ(sums(build_graph(small_towers(), h100(), options()), 0).parameters,
            static_cast<double>(total_parameters(small_towers()) + 2 * 24 * 64));  // padding
}

TEST(TowerGraph, TokenCountsCanBeGiven) {
  ProfileOptions o = options();
  const double before = model_flops_per_sample(Model(small_towers()), o);
  o.tokens = {{"vision", 128}};
  EXPECT_GT(model_flops_per_sample(Model(small_towers()), o), before);
  EXPECT_EQ(
      edges_of(build_graph(small_towers(), h100(), o), 0).at({"vision.projector", "embedding"}),
      128 / 4 * 64.0 * 2);
}

/// Full attention inside windows is as many sequences of that length.
TEST(TowerGraph, WindowsCutWhatIsNotMasked) {
  Architecture whole = small_stack(1);
  whole.causal = false;
  Architecture cut = whole;
  cut.windows = {32};
  const double pairs = 128.0 * 128 - 4 * 32 * 32;
  EXPECT_EQ(model_flops_per_sample(whole, 128) - model_flops_per_sample(cut, 128),
            3 * 4 * pairs * 64);
}

TEST(UNetGraph, StepsOnTheWayUpReadTheirCounterparts) {
  const model::Graph graph = build_graph(small_unet(), h100(), options());
  ASSERT_EQ(graph.strategies.size(), 2U);
  EXPECT_EQ(graph.strategies[1].id, "tp1-mb2");
  const auto edges = edges_of(graph, 0);
  const auto image = [](double side, double channels) { return side * side * channels * 2; };
  EXPECT_EQ((edges.at({"down.1.1", "up.0.0"})), image(8, 64));
  EXPECT_EQ((edges.at({"down.1.0", "up.0.1"})), image(8, 64));
  EXPECT_EQ((edges.at({"down.0.sample", "up.0.2"})), image(8, 32));
  EXPECT_EQ((edges.at({"down.0.1", "up.1.0"})), image(16, 32));
  EXPECT_EQ((edges.at({"down.0.0", "up.1.1"})), image(16, 32));
  EXPECT_EQ((edges.at({"input", "up.1.2"})), image(16, 32));
  // resnets alone read the embedded time, those with attention the text as well
  EXPECT_EQ((edges.at({"conditioning", "up.1.0"})), 128.0 * 2);
  EXPECT_EQ((edges.at({"conditioning", "up.0.0"})), 128.0 * 2 + 8.0 * 48 * 2);
  EXPECT_FALSE(graph.tokens_per_sample.has_value());
}

TEST(UNetGraph, IsAChainButForItsConditioning) {
  EXPECT_EQ(build_outline(small_unet(), options()).layers.size(), 17U);
  EXPECT_EQ(downsets(small_unet(), Granularity::kLayer), 16 + 1 + 2);
}

TEST(UNetGraph, ParametersAreThoseOfItsLayers) {
  EXPECT_EQ(sums(build_graph(small_unet(), h100(), options()), 0).parameters,
            static_cast<double>(total_parameters(small_unet())));
}

TEST(UNetGraph, AResnetByHand) {
  UNet unet = small_unet();
  unet.levels = {{32, 0, 1}};
  unet.middle = {32, 0, 1};
  unet.layers_per_level = 1;
  unet.added_width = 0;
  ProfileOptions o = options();
  const model::Graph graph = build_graph(unet, h100(), o);
  // two norms, the time's projection, two convolutions
  EXPECT_EQ(cost_of(graph, "down.0.0").parameters,
            2 * 2 * 32 + 128 * 32 + 32 + 2 * (9 * 32 * 32 + 32));
  // norms keep two images each, convolutions one
  EXPECT_EQ(cost_of(graph, "down.0.0").activation_bytes, 6 * 16.0 * 16 * 32 * 2);
  const double pixels = 16 * 16;
  const double time = 2 * (32.0 * 128 + 128 * 128);
  const double plain = 2 * (2 * 9 * pixels * 32 * 32 + 128 * 32);
  const double wide =
      2 * (9 * pixels * 64 * 32 + 9 * pixels * 32 * 32 + 128 * 32 + pixels * 64 * 32);
  const double ends = 2 * 2 * 9 * pixels * 4 * 32;
  EXPECT_DOUBLE_EQ(model_flops_per_sample(Model(unet), o),
                   3 * (time + 3 * plain + 2 * wide + ends));
}

std::string failure(const Model& model, const ProfileOptions& o) {
  try {
    build_graph(model, h100(), o);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(ComposedErrors, NameThePart) {
  ProfileOptions o = options();
  o.tokens = {{"vison", 64}};
  EXPECT_EQ(failure(small_towers(), o),
            "tokens: towers has no part \"vison\" to count (did you mean \"vision\"?)");
  EXPECT_EQ(failure(small_stack(), o),
            "tokens: small has no part \"vison\" to count; --seq is all that it takes");
  o.tokens = {{"vision", 1024}};
  EXPECT_EQ(failure(small_towers(), o),
            "seq: 128 is less than the 272 tokens that the towers of towers put out (vision 256, "
            "audio 16)");
  o.tokens = {{"decoder", 0}};
  EXPECT_EQ(failure(small_t5(), o), "tokens: decoder: 0 is not positive");
  o.tokens.clear();
  o.tp = {2};
  EXPECT_EQ(failure(small_unet(), o),
            "tp: no degree fits unet: tp 2 would split convolutions, which are kept whole");
}

TEST(ComposedErrors, DegreesMustFitEveryStack) {
  Multimodal towers = small_towers();
  towers.towers[0].blocks.ffn = 98;
  EXPECT_EQ(tensor_parallel_obstacle(Model(towers), options(), 4),
            "tp 4 does not divide the vision tower's MLP width (98)");
  ProfileOptions o = options();
  o.tokens = {{"decoder", 33}};
  EXPECT_EQ(tensor_parallel_obstacle(Model(small_t5()), o, 2),
            "tp 2 does not divide the decoder's sequence length (33)");
  EncoderDecoder t5 = small_t5();
  t5.encoder.heads = 6;
  EXPECT_EQ(tensor_parallel_obstacle(Model(t5), options(), 4),
            "tp 4 does not divide the encoder's attention heads (6)");
}

}  // namespace
}  // namespace nestplan::cost

// Imported graphs and those profiled from the same architecture, cut at the same places: what they
// compute, hold and hand on is equal to the last unit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "importers/architectures.hpp"
#include "importers/samples.hpp"

namespace nestplan::importers {
namespace {

struct Case {
  std::string file;
  model::Model (*model)();
  std::vector<std::int64_t> tp{1, 2};
};

/// What a layer is called in both graphs: tables in front are one, and what is behind the blocks.
std::string common_name(const std::string& id) {
  static const std::map<std::string, std::string> kNames{{"wte", "embedding"},
                                                         {"wpe", "embedding"},
                                                         {"shared", "embedding"},
                                                         {"shared_1", "embedding"},
                                                         {"encoder.embedding", "embedding"},
                                                         {"ln_f", "head"},
                                                         {"decoder.embedding", "embedding"},
                                                         {"lm_head", "head"},
                                                         {"norm", "head"},
                                                         {"output", "head"},
                                                         {"decoder_norm", "head"},
                                                         {"encoder_norm", "encoder.norm"}};
  if (const auto found = kNames.find(id); found != kNames.end()) return found->second;
  const std::size_t digits = id.find_first_of("0123456789");
  if (digits == std::string::npos || id.find("layer.") != std::string::npos) return id;
  const std::string stack = id.substr(0, digits);
  return (stack == "h." || stack == "layers." ? "" : stack) + "layer." + id.substr(digits);
}

class SameBoundaries : public testing::TestWithParam<Case> {
 protected:
  using ByName = std::map<std::string, double>;
  using ByEnds = std::map<std::pair<std::string, std::string>, double>;

  void SetUp() override {
    Options options;
    options.tp = GetParam().tp;
    options.micro_batches = {1, 2};
    imported_ = test::import_sample(GetParam().file, options).graph;
    profiled_ = test::profiled(GetParam().model(), GetParam().tp);
    ASSERT_EQ(imported_.strategies.size(), profiled_.strategies.size());
  }

  std::size_t column(std::size_t s) const {
    return test::column_of(imported_.strategies[s].id, profiled_);
  }

  /// Shared parameters once.
  static ByName parameters(const model::Graph& graph, std::size_t s) {
    ByName sums;
    for (const model::Layer& layer : graph.layers) {
      const model::LayerCost& cost = *layer.costs[s];
      sums[common_name(layer.id)] += cost.parameters + cost.expert_parameters;
    }
    for (const model::Tie& tie : graph.ties) {
      for (std::size_t i = 1; i < tie.layers.size(); ++i) {
        const auto holder = static_cast<std::size_t>(tie.layers[i]);
        sums[common_name(graph.layers[holder].id)] -= tie.parameters[s];
      }
    }
    return sums;
  }

  static ByEnds boundaries(const model::Graph& graph, std::size_t s) {
    ByEnds sums;
    for (const model::Edge& edge : graph.edges) {
      const std::string from = common_name(graph.layers[static_cast<std::size_t>(edge.from)].id);
      const std::string to = common_name(graph.layers[static_cast<std::size_t>(edge.to)].id);
      if (from != to) sums[{from, to}] += edge.bytes[s];
    }
    return sums;
  }

  model::Graph imported_, profiled_;
};

TEST_P(SameBoundaries, ComputeTheSame) {
  EXPECT_EQ(*imported_.model_flops_per_sample, *profiled_.model_flops_per_sample);
}

TEST_P(SameBoundaries, HoldTheSame) {
  for (std::size_t s = 0; s < imported_.strategies.size(); ++s) {
    SCOPED_TRACE(imported_.strategies[s].id);
    ByName ours = parameters(imported_, s), theirs = parameters(profiled_, column(s));
    if (imported_.strategies[s].tp > 1) {  // tables over the vocabulary are not split here
      for (ByName* each : {&ours, &theirs})
        std::erase_if(*each, [](const auto& entry) {
          return entry.first == "embedding" || entry.first == "head";
        });
    }
    EXPECT_EQ(ours, theirs);
  }
}

TEST_P(SameBoundaries, HandOnTheSame) {
  for (std::size_t s = 0; s < imported_.strategies.size(); ++s) {
    SCOPED_TRACE(imported_.strategies[s].id);
    EXPECT_EQ(boundaries(imported_, s), boundaries(profiled_, column(s)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Torch, SameBoundaries,
    testing::Values(Case{"gpt.onnx", test::gpt}, Case{"gpt.fx.json", test::gpt},
                    Case{"llama.onnx", test::llama}, Case{"llama.fx.json", test::llama},
                    // experts and tables of relative positions are not split here
                    Case{"mixtral.onnx", test::mixtral, {1}},
                    Case{"mixtral.fx.json", test::mixtral, {1}}, Case{"t5.onnx", test::t5, {1}},
                    Case{"t5.fx.json", test::t5, {1}}),
    [](const auto& each) {
      std::string name = each.param.file;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

}  // namespace
}  // namespace nestplan::importers

// The same architectures, read from files that PyTorch wrote and profiled from their shapes.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "importers/architectures.hpp"
#include "importers/samples.hpp"

namespace nestplan::importers {
namespace {

struct Case {
  std::string file;
  std::string block;  ///< its number follows
  std::vector<std::string> stem, head;
  model::Model (*model)();
};

class SameArchitecture : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    Options options;
    options.tp = {1, 2};
    options.micro_batches = {1, 2};
    imported_ = test::import_sample(GetParam().file, options).graph;
    profiled_ = test::profiled(GetParam().model());
    ASSERT_EQ(imported_.strategies.size(), profiled_.strategies.size());
  }

  /// Column of the profiled graph for column `s` of the imported one.
  std::size_t column(std::size_t s) const {
    return test::column_of(imported_.strategies[s].id, profiled_);
  }

  const model::LayerCost& cost(const model::Graph& graph, const std::string& id,
                               std::size_t s) const {
    return *test::layer(graph, id).costs[s];
  }

  /// In any order.
  using Messages = std::multiset<std::tuple<model::Phase, model::CollectiveOp, double>>;
  Messages collectives(const model::Graph& graph, const std::string& id, std::size_t s) const {
    Messages messages;
    for (const model::Collective& step : cost(graph, id, s).collectives) {
      EXPECT_EQ(step.group, model::GroupKind::kTensor);
      messages.insert({step.phase, step.op, step.bytes});
    }
    return messages;
  }

  std::vector<std::pair<std::string, std::string>> blocks() const {
    return {{GetParam().block + "0", "layer.0"}, {GetParam().block + "1", "layer.1"}};
  }

  model::Graph imported_, profiled_;
};

TEST_P(SameArchitecture, HasTheSameFlops) {
  EXPECT_EQ(*imported_.model_flops_per_sample, *profiled_.model_flops_per_sample);
  EXPECT_EQ(imported_.tokens_per_sample, profiled_.tokens_per_sample);
}

TEST_P(SameArchitecture, HasTheSameParameters) {
  for (std::size_t s = 0; s < imported_.strategies.size(); ++s) {
    SCOPED_TRACE(imported_.strategies[s].id);
    for (const auto& [ours, theirs] : blocks()) {
      EXPECT_EQ(cost(imported_, ours, s).parameters, cost(profiled_, theirs, column(s)).parameters);
    }
    if (imported_.strategies[s].tp > 1) continue;  // tables are not split here
    const auto sum = [&](const std::vector<std::string>& ids) {
      double parameters = 0;
      for (const std::string& id : ids) parameters += cost(imported_, id, s).parameters;
      return parameters;
    };
    EXPECT_EQ(sum(GetParam().stem), cost(profiled_, "embedding", column(s)).parameters);
    EXPECT_EQ(sum(GetParam().head), cost(profiled_, "head", column(s)).parameters);
  }
}

TEST_P(SameArchitecture, BlocksKeepTheSameActivations) {
  for (std::size_t s = 0; s < imported_.strategies.size(); ++s) {
    SCOPED_TRACE(imported_.strategies[s].id);
    for (const auto& [ours, theirs] : blocks()) {
      const model::LayerCost& a = cost(imported_, ours, s);
      const model::LayerCost& b = cost(profiled_, theirs, column(s));
      EXPECT_EQ(a.activation_bytes, b.activation_bytes);
      EXPECT_EQ(a.checkpoint_bytes, b.checkpoint_bytes);
    }
  }
}

TEST_P(SameArchitecture, BlocksExchangeTheSameTensors) {
  for (std::size_t s = 0; s < imported_.strategies.size(); ++s) {
    SCOPED_TRACE(imported_.strategies[s].id);
    for (const auto& [ours, theirs] : blocks()) {
      EXPECT_EQ(collectives(imported_, ours, s), collectives(profiled_, theirs, column(s)));
    }
    const double state = profiled_.edges.front().bytes[column(s)];
    for (const model::Edge& edge : imported_.edges) {
      if (imported_.layers[static_cast<std::size_t>(edge.from)].id == "wte") continue;
      EXPECT_EQ(edge.bytes[s], state);
    }
  }
}

/// Products and attention are the same operators; where memory-bound ones are cut apart may differ.
TEST_P(SameArchitecture, BlocksTakeAboutTheSameTime) {
  for (std::size_t s = 0; s < imported_.strategies.size(); ++s) {
    SCOPED_TRACE(imported_.strategies[s].id);
    for (const auto& [ours, theirs] : blocks()) {
      const model::LayerCost& a = cost(imported_, ours, s);
      const model::LayerCost& b = cost(profiled_, theirs, column(s));
      EXPECT_GT(a.forward_s, 0.95 * b.forward_s);
      EXPECT_GT(a.backward_s, 0.95 * b.backward_s);
      // unfused rotations and copies are kernels of their own, which at this size are all the time
      EXPECT_LT(a.forward_s, 2 * b.forward_s);
      EXPECT_LT(a.backward_s, 2 * b.backward_s);
    }
  }
}

TEST_P(SameArchitecture, TheHeadTakesAboutTheSameTime) {
  double forward = 0, backward = 0, working = 0;
  for (const std::string& id : GetParam().head) {
    forward += cost(imported_, id, 0).forward_s;
    backward += cost(imported_, id, 0).backward_s;
    working += cost(imported_, id, 0).working_bytes;
  }
  const model::LayerCost& head = cost(profiled_, "head", column(0));
  EXPECT_NEAR(forward, head.forward_s, 0.01 * head.forward_s);
  EXPECT_NEAR(backward, head.backward_s, 0.01 * head.backward_s);
  EXPECT_EQ(working, head.working_bytes);
}

TEST_P(SameArchitecture, IsAChainOfBlocks) {
  EXPECT_TRUE(in_a_row(imported_));
  EXPECT_EQ(counted_layers(imported_), 2);
}

INSTANTIATE_TEST_SUITE_P(
    Torch, SameArchitecture,
    testing::Values(
        Case{"gpt.onnx", "h.", {"wte", "wpe"}, {"ln_f", "lm_head"}, test::gpt},
        Case{"gpt.fx.json", "h.", {"wte", "wpe"}, {"ln_f", "lm_head"}, test::gpt},
        Case{"llama.onnx", "layers.", {"embedding"}, {"norm", "output"}, test::llama},
        Case{"llama.fx.json", "layers.", {"embedding"}, {"norm", "output"}, test::llama}),
    [](const auto& each) {
      std::string name = each.param.file;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

}  // namespace
}  // namespace nestplan::importers

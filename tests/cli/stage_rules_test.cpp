#include "cli/stage_rules.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nestplan/util/errors.hpp"

namespace nestplan::cli {
namespace {

model::Graph graph() {
  model::Graph graph;
  graph.name = "two towers";
  for (const char* id : {"vision.0", "vision.1", "text.0", "text.1", "head"}) {
    graph.layers.push_back({id, {}, std::string(id) != "head"});
  }
  return graph;
}

std::string error_of(const Flags& flags) {
  try {
    stage_rules(flags, graph());
  } catch (const InvalidConfig& error) {
    return error.what();
  }
  return "";
}

TEST(StageRules, NothingSaidIsNoRule) { EXPECT_TRUE(stage_rules(Flags{}, graph()).none()); }

TEST(StageRules, PatternsAndNumbers) {
  Flags flags;
  flags.pin = {"vision.*=first", "head=last", "text.1=2"};
  flags.pp = {3};
  flags.together = "text.?,head;vision.0,vision.1";
  flags.cut = "vision.*|text.*,head";
  flags.stage_layers = "first-last";
  flags.first_stage_layers = 0;
  flags.most_stage_layers = 2;
  const model::StageConstraints rules = stage_rules(flags, graph());
  using Pin = model::StageConstraints::Pin;
  EXPECT_EQ(rules.pins, (std::vector<Pin>{{0, 0}, {1, 0}, {3, 1}, {4, -1}}));
  EXPECT_EQ(rules.together, (std::vector<std::vector<int>>{{2, 3, 4}, {0, 1}}));
  EXPECT_EQ(rules.cuts, (std::vector<std::vector<int>>{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(rules.layout, model::StageConstraints::Layout::kFirstLast);
  EXPECT_EQ(rules.first, 0);
  EXPECT_EQ(rules.most, 2);
  EXPECT_FALSE(rules.last || rules.least);
}

/// NVIDIA/Megatron-LM, validate_layer_layout.
TEST(StageRules, MegatronKeepsPredictionsTogether) {
  model::Graph graph;
  for (const char* id : {"embedding", "layer.0", "mtp.0", "mtp.1.attention", "mtp.1.mlp", "head"}) {
    graph.layers.push_back({id, {}});
  }
  graph.dimensions.predictions = 2;
  Flags flags;
  EXPECT_TRUE(stage_rules(flags, graph).none());
  flags.target = "torchtitan";
  EXPECT_TRUE(stage_rules(flags, graph).none());
  flags.target = "megatron";
  EXPECT_EQ(stage_rules(flags, graph).together, (std::vector<std::vector<int>>{{2, 3, 4}}));
  graph.dimensions.predictions = 1;
  EXPECT_TRUE(stage_rules(flags, graph).none());
}

TEST(StageRules, ErrorsNameFlagAndNearest) {
  Flags flags;
  flags.pin = {"visoin.0=first"};
  EXPECT_EQ(error_of(flags), "--pin: unknown layer \"visoin.0\" (did you mean \"vision.0\"?)");
  flags.pin = {"vision.0=0"};
  EXPECT_EQ(error_of(flags), "--pin: \"0\" is no stage: first, last, or a number from 1");
  flags.pin = {"vision.0"};
  EXPECT_EQ(error_of(flags), "--pin: \"vision.0\" is not LAYER=first, LAYER=last or LAYER=N");
  flags.pin = {"vision.*=1", "vision.1=2"};
  EXPECT_EQ(error_of(flags), "--pin: layer \"vision.1\" is pinned to two stages");
  flags.pin = {"vision.*=1", "vision.1=first"};
  EXPECT_EQ(error_of(flags), "");
  flags.pin = {"text.0=3"};
  EXPECT_NE(error_of(flags).find("--pin: layer \"text.0\" in stage 3 needs one --pp of at least"),
            std::string::npos);
  flags.pp = {2};
  EXPECT_NE(error_of(flags), "");
  flags.pp = {3};
  EXPECT_EQ(error_of(flags), "");

  flags.pin = {"audio.*=first"};
  EXPECT_NE(error_of(flags).find("--pin: no layer matches \"audio.*\""), std::string::npos);
  flags = {};
  flags.together = "head";
  EXPECT_EQ(error_of(flags), "--together: \"head\" is one layer alone; a group needs two");
  flags.together = "head,;text.0,text.1";
  EXPECT_EQ(error_of(flags), "--together: the name of a layer is empty");
  flags = {};
  flags.cut = "vision.*";
  EXPECT_EQ(error_of(flags), "--cut: \"vision.*\" is one set; \"|\" stands between sets");
  flags.cut = "vision.*|*.1";
  EXPECT_EQ(error_of(flags), "--cut: layer \"vision.1\" is in two sets, \"vision.*\" and \"*.1\"");
  flags = {};
  flags.first_stage_layers = 5;
  EXPECT_EQ(error_of(flags), "--first-stage-layers: is 5, but there are only 4 to count");
  flags = {};
  flags.least_stage_layers = 3;
  flags.most_stage_layers = 2;
  EXPECT_EQ(error_of(flags), "--least-stage-layers: 3 is more than --most-stage-layers 2");
}

TEST(Patterns, MatchAllOfTheText) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "axxbyybc"));
  EXPECT_TRUE(matches("layer.?", "layer.7"));
  EXPECT_TRUE(matches("**x", "x"));
  EXPECT_FALSE(matches("layer.?", "layer.17"));
  EXPECT_FALSE(matches("a*b", "abc"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("a?", "a"));
}

}  // namespace
}  // namespace nestplan::cli

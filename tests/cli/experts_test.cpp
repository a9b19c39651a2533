#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

const std::string kInputs = std::string(NESTPLAN_SOURCE_DIR) + "/inputs/";

/// Models with a mixture of experts, from their configs to plans.
class ExpertsTest : public Workspace {
 protected:
  Words on_pod(const char* command, const std::string& model, const Words& more = {}) const {
    Words words{command,
                "--model",
                kInputs + "models/" + model,
                "--cluster",
                kInputs + "clusters/dgx-h100-superpod.json",
                "--global-batch",
                "1024"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Json plan(const Words& more) const {
    const Outcome outcome = run(on_pod("plan", "mixtral-8x7b", more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
};

TEST_F(ExpertsTest, ArePlannedAndEvaluated) {
  const Json planned = plan({"--ep", "1,2,4,8", "--json", "-o", path("plan.json")});
  const Json& stage = planned["stages"][0];
  const auto ep = stage["ep"].get<int>();
  EXPECT_TRUE(ep == 1 || ep == 2 || ep == 4 || ep == 8) << ep;
  const Outcome evaluated = run(on_pod("evaluate", "mixtral-8x7b", {"--json", path("plan.json")}));
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(evaluated.out)["iteration_time_s"], planned["iteration_time_s"]);
}

// What the fullest expert shard gets is what the time of a layer is made of.
TEST_F(ExpertsTest, MoreTokensTakeMoreTime) {
  const auto seconds = [this](const Words& more) {
    // a margin of its own would come with what is dropless
    Words words{"--ep", "8", "--tp", "1", "--memory-margin", "6%", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return plan(words)["iteration_time_s"].get<double>();
  };
  const double even = seconds({});
  EXPECT_EQ(seconds({"--routing-imbalance", "1"}), even);
  EXPECT_GT(seconds({"--routing-imbalance", "1.5"}), even);
  EXPECT_GT(seconds({"--capacity-factor", "1.5"}), even);
  EXPECT_EQ(seconds({"--capacity-factor", "1", "--routing-imbalance", "1.5"}), even);
}

TEST_F(ExpertsTest, DegreesThatDoNotFitAreNamed) {
  const Outcome some = run(on_pod("plan", "mixtral-8x7b", {"--ep", "3,4"}));
  EXPECT_EQ(some.exit_code, 0) << some.err;
  EXPECT_NE(some.err.find("ep 3 is left out: ep 3 does not divide the experts (8)"),
            std::string::npos)
      << some.err;
  const auto refuses = [this](const Words& words, const char* says) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  };
  refuses(on_pod("plan", "mixtral-8x7b", {"--ep", "16"}), "does not divide the experts (8)");
  refuses(on_pod("plan", "mixtral-8x7b", {"--routing-imbalance", "0.5"}), "--routing-imbalance: ");
  refuses(on_small({"plan"}, {"--capacity-factor", "2"}), "--capacity-factor: is for a --model");
  refuses(on_small({"plan"}, {"--routing-imbalance", "2"}),
          "--routing-imbalance: is for a --model");
}

TEST_F(ExpertsTest, AModuleOfPredictionIsPlanned) {
  const Outcome outcome = run(on_pod("plan", "deepseek-v3", {"--ep", "8", "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<std::string> layers;
  const Json planned = Json::parse(outcome.out);
  for (const Json& stage : planned["stages"]) {
    for (const Json& layer : stage["layers"]) layers.push_back(layer);
  }
  ASSERT_EQ(layers.size(), 64U);
  EXPECT_EQ(layers[61], "layer.60");
  EXPECT_EQ(layers[62], "mtp.0");
  EXPECT_EQ(layers[63], "head");
}

}  // namespace
}  // namespace nestplan::test

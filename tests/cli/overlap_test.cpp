#include <gtest/gtest.h>

#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

/// What runs beside computation, seen from outside.
class OverlapTest : public Workspace {
 protected:
  Json result(const Words& command, const Words& flags) const {
    Words more{"--json"};
    more.insert(more.end(), flags.begin(), flags.end());
    const Outcome outcome = run(on_small(command, more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    Json plan = Json::parse(outcome.out);
    plan.erase("search");
    return plan;
  }

  std::string refusal(const Words& flags) const {
    const Outcome outcome = run(on_small({"plan"}, flags));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(is_one_line(outcome.err));
    return outcome.err;
  }
};

const Words kTensor{"--pp", "1", "--tp", "2", "--dp", "2", "--zero", "0"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(OverlapTest, NothingIsHiddenUnlessItIsSaid) {
  const Json plan = result({"plan"}, kTensor);
  EXPECT_FALSE(plan["strategy"].contains("overlap"));
  EXPECT_EQ(result({"plan"}, with(kTensor, {"--overlap", "none"})), plan);
  EXPECT_EQ(result({"plan"}, with(kTensor, {"--overlap", "tensor=0,sync=0"})), plan);
}

TEST_F(OverlapTest, SharesShortenAPlan) {
  const Json apart = result({"plan"}, kTensor);
  const std::string file = write_json("plan.json", apart);
  const Json beside = result({"evaluate", file}, {"--overlap", "sync=1"});
  EXPECT_LT(beside["iteration_time_s"], apart["iteration_time_s"]);
  EXPECT_EQ(beside["strategy"]["overlap"]["sync"], 1);
  const Json& time = beside["stages"][0]["time"];
  EXPECT_NEAR(time["sync_s"].get<double>() + time["hidden_sync_s"].get<double>(),
              apart["stages"][0]["time"]["sync_s"].get<double>(), 1e-12);
  const Json best = result({"plan"}, with(kTensor, {"--overlap", "sync=1"}));
  EXPECT_LE(best["iteration_time_s"], beside["iteration_time_s"]);
}

TEST_F(OverlapTest, TargetsHaveSharesOfTheirOwn) {
  const Words megatron = with(kTensor, {"--target", "megatron"});
  const Json usual = result({"plan"}, megatron);
  EXPECT_EQ(usual["strategy"]["overlap"]["sync"], 1);
  const Json none = result({"plan"}, with(megatron, {"--overlap", "none"}));
  EXPECT_EQ(none["strategy"]["overlap"]["sync"], 0);
  EXPECT_GT(none["iteration_time_s"], usual["iteration_time_s"]);
  const Json changed = result({"plan"}, with(megatron, {"--overlap", "tensor=0.5"}));
  EXPECT_EQ(changed["strategy"]["overlap"]["sync"], 1);
  EXPECT_EQ(changed["strategy"]["overlap"]["tensor"], 0.5);
  const Outcome rules = run({"inspect", "--rules", "--target", "megatron"});
  EXPECT_NE(rules.out.find("sync=1"), std::string::npos) << rules.out;
}

TEST_F(OverlapTest, APlanFileRemembersThem) {
  for (const Words& flags :
       {Words{"--overlap", "sync=0.5,tensor=0.25"}, Words{"--target", "megatron"},
        Words{"--target", "megatron", "--overlap", "none"}}) {
    const Json plan = result({"plan"}, with(kTensor, flags));
    const std::string file = write_json("plan.json", plan);
    const Json judged = result({"evaluate", file}, {});
    EXPECT_EQ(judged["iteration_time_s"], plan["iteration_time_s"]);
    EXPECT_EQ(judged["strategy"], plan["strategy"]);
    const Json changed = result({"evaluate", file}, {"--overlap", "sync=1"});
    EXPECT_EQ(changed["strategy"]["overlap"]["sync"], 1);
    EXPECT_LE(changed["iteration_time_s"], plan["iteration_time_s"]);
    EXPECT_EQ(result({"simulate", file}, {})["predicted_s"], plan["iteration_time_s"]);
  }
}

TEST_F(OverlapTest, SlipsAreNamed) {
  EXPECT_NE(refusal({"--overlap", "tensr=1"}).find("did you mean \"tensor\""), std::string::npos);
  EXPECT_NE(refusal({"--overlap", "sync=1.5"}).find("\"1.5\" is no share from 0 to 1"),
            std::string::npos);
  EXPECT_NE(refusal({"--overlap", "sync=nan"}).find("\"nan\" is no share"), std::string::npos);
  EXPECT_NE(refusal({"--overlap", "sync"}).find("WHAT=SHARE"), std::string::npos);
  EXPECT_NE(refusal({"--overlap", "pipeline=1", "--no-transfer-overlap"})
                .find("contradicts --no-transfer-overlap"),
            std::string::npos);
}

}  // namespace
}  // namespace nestplan::test

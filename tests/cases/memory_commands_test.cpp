// Memory, seen from the command line.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cases/command_cases.hpp"

namespace nestplan::cases {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

class MemoryCommand : public CommandCase {};

// M03 — units are said, and state alone is never called a peak
TEST_F(MemoryCommand, CaseM03UnitsAreSaidAndStateIsNotAPeak) {
  write_json("model.json", llama());
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  const Words words = plan("model", 16);
  for (const Words& detail : {Words{}, Words{"-v"}}) {
    const std::string text = run(words + detail).out;
    EXPECT_TRUE(has(text, " GiB on stage "));
    EXPECT_FALSE(has(text, " GB on stage "));
    for (const char* item : {"weights", "gradients", "optimizer", "gathered weights",
                             "activations in flight", "context", "communicators"}) {
      EXPECT_TRUE(has(text, item));
    }
    for (std::size_t at = text.find("peak"); at != std::string::npos;
         at = text.find("peak", at + 1)) {
      EXPECT_EQ(text.substr(at, 6), "peak, ") << "of a device's rate alone";
    }
  }
  const Json stage = planned("model", 16).at("stages").at(0).at("memory");
  EXPECT_EQ(stage.at("total_bytes"), stage.at("state_bytes").get<double>() +
                                         stage.at("activation_bytes").get<double>() +
                                         stage.at("reserve_bytes").get<double>());
}

// P10, M05 — the items of every stage add up, whatever the bytes per parameter
TEST_F(MemoryCommand, CaseM05ItemsAddUpForAllStateBytes) {
  write_json("model.json", llama());
  write_json("machine.json", cluster({{4, "450 GB/s"}}));
  for (const auto& [bytes, sum] :
       {std::pair{"4,4,8", 16.0}, {"2,2,12", 16.0}, {"2,4,12", 18.0}, {"2,6,12", 20.0}}) {
    const Json plan = planned("model", 16, {"--state-bytes", bytes, "--zero", "0", "--pp", "2"});
    ASSERT_EQ(plan.at("stages").size(), 2U) << "the memory of every stage";
    for (const Json& stage : plan.at("stages")) {
      const Json& memory = stage.at("memory");
      const double weight = bytes[0] - '0';
      EXPECT_DOUBLE_EQ(memory.at("state_bytes").get<double>(),
                       memory.at("weight_bytes").get<double>() / weight * sum)
          << bytes;
    }
  }
}

// M11 — the reserve is a line of its own, and 0 where it is 0
TEST_F(MemoryCommand, CaseM11ReservesAreShownAndCount) {
  write_json("model.json", llama());
  write_json("machine.json", cluster({{4, "450 GB/s"}, {4, "50 GB/s"}}));
  const Words groups{"--tp", "2", "--cp", "2", "--pp", "2", "--dp", "2"};
  const Json plan =
      planned("model", 16,
              groups + Words{"--context-reserve", "1 GiB", "--communicator-buffer", "512 MiB"});
  for (const Json& stage : plan.at("stages")) {
    EXPECT_EQ(stage.at("memory").at("communicator_bytes"), 4 * kGiB / 2);
    EXPECT_EQ(stage.at("memory").at("context_bytes"), kGiB);
  }
  const Words none{"--context-reserve", "0 B", "--communicator-buffer", "0 B",
                   "--memory-margin",   "0%"};
  const Json without = planned("model", 16, groups + none);
  for (const Json& stage : without.at("stages")) {
    EXPECT_EQ(stage.at("memory").at("reserve_bytes"), 0);
    EXPECT_EQ(stage.at("memory").at("margin_bytes"), 0);
  }
  const std::string text = run(this->plan("model", 16, groups + none)).out;
  EXPECT_TRUE(has(text, "communicators                 0 GiB"));
  EXPECT_TRUE(has(text, "a margin of 0 GiB"));
}

TEST_F(MemoryCommand, CaseM11AReserveThatDoesNotFitMakesAPlanInfeasible) {
  write_json("model.json", llama());
  const Words groups{"--tp", "2", "--cp", "2", "--pp", "2", "--dp", "2", "--memory-margin", "0%"};
  const Words none{"--context-reserve", "0 B", "--communicator-buffer", "0 B"};
  write_json("machine.json", cluster({{4, "450 GB/s"}, {4, "50 GB/s"}}));
  double needed = 0;
  const Json least =
      planned("model", 16, groups + none + Words{"--zero", "3", "--recompute", "full"});
  for (const Json& stage : least.at("stages")) {
    needed = std::max(needed, stage.at("memory").at("total_bytes").get<double>());
  }
  const std::string exactly = std::to_string(static_cast<long long>(needed)) + " B";
  write_json("machine.json", cluster({{4, "450 GB/s"}, {4, "50 GB/s"}}, exactly));
  planned("model", 16, groups + none);
  for (const Words& reserve :
       {Words{"--context-reserve", "1 GiB", "--communicator-buffer", "0 B"},
        Words{"--context-reserve", "0 B", "--communicator-buffer", "600 MiB"}}) {
    EXPECT_EQ(run(plan("model", 16, groups + reserve)).exit_code, 3);
  }
}

// M12 — two plans a percent apart, at 98 and 85 percent of the memory
TEST_F(MemoryCommand, CaseM12TheRoomierPlanIsTakenAndTheOtherListed) {
  Json graph = chain({1});
  Json& cost = graph["layers"][0]["costs"]["one"];
  // of ten micro-batches in flight: 9.8 GiB each, or 7.52 GiB each and 9.8 GiB once
  cost = {{"forward_s", 0.01},
          {"backward_s", 0.99},
          {"parameters", 0},
          {"activation_bytes", 9.8 * kGiB},
          {"checkpoint_bytes", 7.52 * kGiB}};
  write_json("graph.json", graph);
  write_json("machine.json", cluster({{1, "450 GB/s"}}, "100 GiB"));
  const Words words{"--schedule", "gpipe", "--memory-margin", "10%"};
  const Json plan = planned("graph", 10, words + Words{"--what-if"});
  const double share = plan["stages"][0]["memory"]["total_bytes"].get<double>() / (100 * kGiB);
  EXPECT_NEAR(share, 0.85, 0.001);
  EXPECT_EQ(plan["stages"][0]["recompute"], "full");
  bool listed = false;
  for (const Json& row : plan.at("what_if")) {
    if (row.at("change") != "no memory margin") continue;
    listed = true;
    EXPECT_EQ(row.at("in_margin"), true);
    EXPECT_NEAR(row.at("memory_bytes").get<double>() / (100 * kGiB), 0.98, 0.001);
    EXPECT_NEAR(row.at("gain").get<double>(), 0.01, 0.0005);
  }
  EXPECT_TRUE(listed);
  EXPECT_EQ(planned("graph", 10, {"--schedule", "gpipe"})["stages"][0]["recompute"], "none")
      << "without a margin";
}

TEST_F(MemoryCommand, CaseM12MoreIsLeftWhereRoutingChangesWhatIsNeeded) {
  write_json("machine.json", cluster({{4, "450 GB/s"}}, "80 GiB"));
  const auto margin = [&](const Words& more) {
    const Json plan = planned("model", 16, more);
    return plan["stages"][0]["memory"]["margin_bytes"].get<double>() / (80 * kGiB);
  };
  write_json("model.json", llama());
  EXPECT_NEAR(margin({}), 0.06, 1e-6);
  write_json("model.json", mixture(8));
  EXPECT_NEAR(margin({}), 0.10, 1e-6) << "dropless";
  EXPECT_NEAR(margin({"--capacity-factor", "1.25"}), 0.06, 1e-6);
  EXPECT_NEAR(margin({"--memory-margin", "3%"}), 0.03, 1e-6);
}

// M13 — FSDP deals out whole rows
TEST_F(MemoryCommand, CaseM13RowsThatAreFewerThanRanksAreNamed) {
  write_json("model.json", mixture(4));
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  const Words eight{"--target", "torchtitan", "--dp", "8", "--tp", "1", "--ep", "1", "--zero", "3"};
  const Json remarks = planned("model", 16, eight).at("remarks");
  const bool named = std::any_of(remarks.begin(), remarks.end(), [](const Json& remark) {
    return static_cast<bool>(has(remark, "of the 4 rows of routers a rank holds up to 1"));
  });
  EXPECT_TRUE(named) << remarks;
}

// M14 — which of the two ways to run ZeRO 3 is meant
TEST_F(MemoryCommand, CaseM14GathersOfWeightsAreCounted) {
  write_json("model.json", llama());
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  for (const int zero : {0, 1, 2, 3}) {
    const Words words{"--pp",          "2", "--dp",   "4",
                      "--micro-batch", "1", "--zero", std::to_string(zero)};
    const Json plan = planned("model", 64, words);
    for (const Json& stage : plan.at("stages")) {
      EXPECT_EQ(stage.at("weight_gathers"), zero == 0 ? 0 : zero < 3 ? 1 : 2 * 16);
    }
    const std::string text = run(this->plan("model", 64, words)).out;
    EXPECT_EQ(
        text.find("gathers the weights for every forward and backward pass") != std::string::npos,
        zero == 3);
  }
}

// M17 — host memory for loading a run
TEST_F(MemoryCommand, CaseM17HostsThatAreTooSmallToLoadARunAreNamed) {
  write_json("model.json", llama());
  Json machine = cluster({{8, "450 GB/s"}});
  const Words eight{"--dp", "8", "--tp", "1", "--zero", "1"};
  write_json("machine.json", machine);
  const Json plan = planned("model", 16, eight);
  const double node = plan.at("restart").at("whole_bytes_per_node");
  EXPECT_EQ(node, 8 * plan.at("restart").at("shard_bytes_per_node").get<double>());
  EXPECT_TRUE(plan.at("restart").at("host_memory_bytes").is_null());
  EXPECT_FALSE(plan.contains("remarks"));
  machine["host_memory"] = std::to_string(static_cast<long long>(node) - 1) + " B";
  write_json("machine.json", machine);
  const Json small = planned("model", 16, eight);
  ASSERT_TRUE(small.contains("remarks"));
  EXPECT_TRUE(has(small.at("remarks").at(0), "if each of its 8 ranks reads all optimizer state"));
  EXPECT_TRUE(has(run(this->plan("model", 16, eight)).out, "loading the run"));
  machine["host_memory"] = std::to_string(static_cast<long long>(node) + 1) + " B";
  write_json("machine.json", machine);
  EXPECT_FALSE(planned("model", 16, eight).contains("remarks"));
}

TEST_F(MemoryCommand, CaseM17HostMemoryIsReadWithItsUnitAndShown) {
  Json machine = cluster({{8, "450 GB/s"}});
  machine["host_memory"] = "2 TB";
  const std::string file = write_json("machine.json", machine);
  EXPECT_TRUE(has(run({"inspect", file}).out, "1.82 TiB for every 8 devices"));
  EXPECT_EQ(Json::parse(run({"inspect", file, "--json"}).out).at("host_memory_bytes"), 2e12);
  write_json("model.json", llama());
  for (const Json& bad : {Json(256), Json("256"), Json("-1 GB"), Json("0 B"), Json("256 Gb/s")}) {
    machine["host_memory"] = bad;
    write_json("machine.json", machine);
    const Outcome outcome = run(plan("model", 16));
    EXPECT_EQ(outcome.exit_code, 2) << bad;
    EXPECT_TRUE(has(outcome.err, "machine.json: host_memory: "));
  }
}

// P12 — an output layer that no split balances
TEST_F(MemoryCommand, CaseP12AHeadAboveAStagesShareIsNamedAndFewerStagesAreBetter) {
  Json model = llama(24, 2048, 16, 256000);
  write_json("model.json", model);
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  const Words eight{"--tp", "1", "--dp", "1", "--micro-batch", "1"};
  const Json plan = planned("model", 256, eight + Words{"--pp", "8"});
  const std::string remark = plan.at("remarks").at(0);
  EXPECT_TRUE(has(remark, "layer \"head\" takes as long as "));
  EXPECT_TRUE(has(remark, "a stage's share (24 layers over 8 stages)"));
  EXPECT_TRUE(has(remark, "fewer stages, or a higher tp"));
  EXPECT_TRUE(has(run(this->plan("model", 256, eight + Words{"--pp", "8"})).out, "note"));
  EXPECT_LT(planned("model", 256).at("strategy").at("pp"), 8) << "what is planned if it may be";
}

}  // namespace
}  // namespace nestplan::cases

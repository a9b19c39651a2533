// Where on the machine a plan lies, seen from the command line.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cases/command_cases.hpp"

namespace nestplan::cases {
namespace {

class NetworkCommand : public CommandCase {
 protected:
  static Json dimension(const char* name, int size) {
    return {{"name", name}, {"size", size}, {"bandwidth", "45 GB/s"}, {"latency", "1 us"}};
  }

  Json machine_on(const Json& network) const {
    Json machine = cluster({{1, "1 GB/s"}}, "1 TB");
    machine["network"] = network;
    return machine;
  }

  /// A layer of one megabyte of parameters whose tensor-parallel group gathers as much.
  Json one_layer(int tp) const {
    Json graph = chain({1});
    graph["strategies"][0]["tp"] = tp;
    Json& cost = graph["layers"][0]["costs"]["one"];
    cost["parameters"] = 500000;
    if (tp > 1) {
      cost["collectives"] = Json::array(
          {{{"phase", "forward"}, {"op", "all_gather"}, {"group", "tp"}, {"bytes", 1000000}}});
    }
    return graph;
  }

  /// Groups of a kind by the domain that holds them.
  static std::map<std::string, int> groups(const Json& plan, const std::string& kind) {
    std::map<std::string, int> by_domain;
    for (const Json& each : plan.at("placement").at("groups")) {
      if (each.at("kind") == kind) by_domain = each.at("domains").get<decltype(by_domain)>();
    }
    return by_domain;
  }

  static int mixed_rails(const Json& plan, const std::string& kind) {
    for (const Json& each : plan.at("placement").at("groups")) {
      if (each.at("kind") == kind) return each.at("mixed_rails");
    }
    return -1;
  }
};

using Domains = std::map<std::string, int>;

// N05 — NVIDIA-NeMo/Megatron-Bridge performance guide, deepseek-ai/DeepEP issue 596

/// Four racks of 18 nodes of four.
class RackCommand : public NetworkCommand {
 protected:
  void SetUp() override {
    CommandCase::SetUp();
    Json model = mixture(256);
    model["num_hidden_layers"] = 4;
    write_json("model.json", model);
    Json machine = cluster({{4, "900 GB/s"}, {18, "900 GB/s"}, {4, "50 GB/s"}}, "180 GB");
    machine["hosts"] = "n[01-72]";
    const char* const names[] = {"node", "rack", "leaf"};
    for (std::size_t l = 0; l < 3; ++l) machine["network"]["levels"][l]["name"] = names[l];
    write_json("machine.json", machine);
  }

  Words experts(int ep) const { return {"--ep", std::to_string(ep), "--etp", "1", "--dp", "256"}; }
};

TEST_F(RackCommand, CaseN05GroupsOf64StayInRacksOf72) {
  const Json best = planned("model", 1024, experts(64));
  EXPECT_EQ(best.at("devices").at("used"), 256);
  EXPECT_EQ(best.at("devices").at("idle"), 32);
  EXPECT_EQ(groups(best, "ep"), (Domains{{"rack", 4}}));

  const Words filled = experts(64) + Words{"--dp-inner", "256"};
  const Json straddling = planned("model", 1024, filled);
  EXPECT_EQ(groups(straddling, "ep"), (Domains{{"rack", 1}, {"leaf", 3}}));
  EXPECT_GT(straddling.at("iteration_time_s"), best.at("iteration_time_s"));

  const std::string report = run(plan("model", 1024, filled)).out;
  EXPECT_TRUE(has(report, "256 of 288 used, 32 idle: 256–287"));
  EXPECT_TRUE(has(report, "3 of 4 ep groups straddle a rack (1 in rack, 3 across leaf)"));
  const Outcome kept =
      run(plan("model", 1024, filled + Words{"--keep-inside", "ep=rack", "--json"}));
  EXPECT_EQ(kept.exit_code, 3) << kept.err;
}

TEST_F(RackCommand, CaseN05GroupsOf72DoNotDivideTheExperts) {
  const Outcome refused = run(plan("model", 1024, {"--ep", "72"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(has(refused.err, "ep 72 does not divide the experts (256)"));
}

// N06 — NVIDIA-NeMo/RL pull requests 2986 and 2612
TEST_F(RackCommand, CaseN06TheJobAsksForSegmentsOfAnExpertGroup) {
  for (const int ep : {32, 64}) {
    const std::string nodes = std::to_string(ep / 4);
    const std::string file = path("plan" + nodes + ".json");
    const Json plan = planned("model", 1024, experts(ep) + Words{"-o", file});
    EXPECT_EQ(groups(plan, "ep"), (Domains{{"rack", 256 / ep}}));
    EXPECT_EQ(plan.at("placement").at("segment_nodes"), ep / 4);
    EXPECT_EQ(plan.at("placement").at("hosts"), 64) << "two nodes of every rack are idle";
    const Outcome job = run({"export", file, "--cluster", path("machine.json"), "--to", "slurm"});
    ASSERT_EQ(job.exit_code, 0) << job.err;
    EXPECT_TRUE(has(job.out, "\n#SBATCH --segment=" + nodes + "\n"));
    EXPECT_TRUE(has(job.out, "\n#SBATCH --nodes=64\n"));
    EXPECT_TRUE(has(job.out, "\n#SBATCH --nodelist=" +
                                 plan.at("placement").at("host_list").get<std::string>() + "\n"));
  }
}

// N07 — NVIDIA-NeMo/RL pull requests 2924 and 3178

class SlurmCommand : public NetworkCommand {
 protected:
  void SetUp() override {
    CommandCase::SetUp();
    write_json("graph.json", chain({1, 1, 1, 1, 1, 1}));
    write("topology.conf",
          "SwitchName=0 Nodes=a,b,c\nSwitchName=1 Nodes=d\nSwitchName=root Switches=0,1\n");
  }

  void write_nodes(const char* nodes) const {
    const auto rates = [](const char* name, const char* bandwidth) {
      return Json{{"name", name}, {"bandwidth", bandwidth}, {"latency", "1 us"}};
    };
    write_json("machine.json",
               machine_on({{"kind", "slurm"},
                           {"topology", "topology.conf"},
                           {"nodes", nodes},
                           {"devices_per_node", 2},
                           {"node", rates("node", "450 GB/s")},
                           {"levels", {rates("leaf", "50 GB/s"), rates("root", "25 GB/s")}}}));
  }
};

TEST_F(SlurmCommand, CaseN07ANodeOfUnknownPlaceComesLast) {
  write_nodes("x,a,b,c,d");
  const Json three = planned("graph", 16, {"--choose-nodes", "3"});
  EXPECT_EQ(three.at("placement").at("host_list"), "a,b,c");
  EXPECT_EQ(three.at("devices").at("total"), 6);
  const Outcome four = run(plan("graph", 16, {"--choose-nodes", "4"}));
  EXPECT_TRUE(has(four.err, "ask for a,b,c,d"));
  EXPECT_FALSE(has(four.err, "nothing is known"));
  const Outcome five = run(plan("graph", 16, {"--choose-nodes", "5"}));
  EXPECT_TRUE(has(five.err, "nothing is known of where x are"));
  const Outcome six = run(plan("graph", 16, {"--choose-nodes", "6"}));
  EXPECT_EQ(six.exit_code, 2);
  EXPECT_TRUE(has(six.err, "6 nodes are wanted and 5 are available"));
}

TEST_F(SlurmCommand, CaseN07SwitchZeroIsOneLikeAnyOther) {
  write_nodes("a,d");
  const Json plan = planned("graph", 4, {"--dp", "4", "--zero", "0"});
  EXPECT_EQ(groups(plan, "dp"), (Domains{{"root", 1}}));
  EXPECT_EQ(plan.at("placement").at("hosts"), 2);
}

// N10 — NVIDIA/nccl issues 1494, 2345, 1014 and 1933
TEST_F(NetworkCommand, CaseN10GroupsThatMixIsolatedRailsAreSeenAndPaidFor) {
  Json machine = cluster({{2, "450 GB/s"}, {2, "50 GB/s"}});
  machine["network"]["levels"][1]["rails"] = "isolated";
  write_json("graph.json", one_layer(1));
  const Words two{"--dp", "2", "--zero", "0"};
  std::map<std::string, double> seconds;
  for (const auto& [missing, mixes] : {std::pair("1,3", 0), {"0,2", 0}, {"1-2", 1}}) {
    machine["unavailable"] = {{"places", missing}};
    write_json("machine.json", machine);
    const Json plan = planned("graph", 2, two);
    EXPECT_EQ(mixed_rails(plan, "dp"), mixes) << missing;
    seconds[missing] = plan.at("stages")[0].at("time").at("sync_s");
    EXPECT_EQ(has(run(this->plan("graph", 2, two)).out, "1 of 1 dp groups mix rails"), mixes == 1);
  }
  EXPECT_EQ(seconds["1,3"], seconds["0,2"]);
  // One more hop inside a node, either way.
  EXPECT_NEAR(seconds["1-2"] - seconds["1,3"], 2e-6, 1e-12);

  machine.erase("unavailable");
  write_json("machine.json", machine);
  write_json("graph.json", one_layer(2));
  const Json whole = planned("graph", 2, two + Words{"--dp-inner", "1"});
  EXPECT_EQ(mixed_rails(whole, "dp"), 0) << "{0,2} and {1,3}";
}

// N12 — AI-Hypercomputer/maxtext pull request 4911, google/tunix pull request 1465
TEST_F(NetworkCommand, CaseN12SlicesKeepHostsWholeAndRingsFindNeighbours) {
  const auto mesh = [&](int x, int y) {
    write_json("machine.json",
               machine_on({{"kind", "mesh"},
                           {"host", {2, 2}},
                           {"dimensions", Json::array({dimension("x", x), dimension("y", y)})}}));
  };
  mesh(4, 1);
  write_json("graph.json", one_layer(4));
  const Outcome refused = run(plan("graph", 1));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(test::is_one_line(refused.err));
  for (const char* part : {"machine.json", "network.host", "2x2 does not divide", "4x1"}) {
    EXPECT_TRUE(has(refused.err, part));
  }
  mesh(2, 2);
  EXPECT_EQ(groups(planned("graph", 1), "tp"), (Domains{{"host", 1}}));

  mesh(4, 2);
  EXPECT_EQ(groups(planned("graph", 1), "tp"), (Domains{{"host", 1}}));
  // A part of it, asked for.
  const Outcome cut = run(plan("graph", 1, {"--slice", "4x1"}));
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_TRUE(
      has(cut.err, "--slice: 4x1 cuts hosts of 2x2 in y (the next larger that does not: 4x2)"));
  EXPECT_TRUE(has(run(plan("graph", 1, {"--slice", "4x4"})).err, "does not lie in 4x2"));
  EXPECT_TRUE(has(run(plan("graph", 1, {"--slice", "4"})).err, "has 1 dimensions"));
  EXPECT_TRUE(has(run(plan("graph", 1, {"--slice", "4xy"})).err, "is not a number of devices"));
  EXPECT_EQ(planned("graph", 1, {"--slice", "2x2"}).at("devices").at("total"), 4);
  // Eight go there along one row and back along the other, both ways at once.
  write_json("graph.json", one_layer(8));
  const Json ring = planned("graph", 1);
  EXPECT_NEAR(ring.at("stages")[0].at("time").at("collective_s"), 7.0 / 8 * 1e6 / 90e9 + 4e-6,
              1e-12);
  // In this order, which can be carried out.
  ASSERT_EQ(run(plan("graph", 1, {"-q", "-o", path("plan.json")})).exit_code, 0);
  const Outcome exported =
      run({"export", path("plan.json"), "--cluster", path("machine.json"), "--groups"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const Json placement = Json::parse(exported.out);
  const Json order = placement.at("rings").at("tp").at(0);
  ASSERT_EQ(order.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    const Json a = placement.at("ranks")[order[i].get<std::size_t>()].at("coordinates");
    const Json b = placement.at("ranks")[order[(i + 1) % 8].get<std::size_t>()].at("coordinates");
    EXPECT_EQ(
        std::abs(a[0].get<int>() - b[0].get<int>()) + std::abs(a[1].get<int>() - b[1].get<int>()),
        1)
        << a << " and " << b;
  }
}

// N13 — AI-Hypercomputer/maxtext issue 30, pull requests 43 and 228
TEST_F(NetworkCommand, CaseN13WhatIsSplitOverSlicesIsNotTakenForWhatIsInside) {
  write_json(
      "machine.json",
      machine_on({{"kind", "torus"},
                  {"dimensions", Json::array({dimension("x", 4), dimension("y", 2)})},
                  {"slices", {{"count", 2}, {"bandwidth", "6.25 GB/s"}, {"latency", "10 us"}}}}));
  const auto split = [&](int copies, int tp, const Words& more = {}) {
    write_json("graph.json", one_layer(tp));
    return run(plan(
        "graph", 16,
        Words{"--json", "--zero", "0", "--dp", std::to_string(copies), "--dp-inner", "1"} + more));
  };
  const Words kept{"--keep-inside", "pod=slice"};
  const Outcome fits = split(2, 8, kept);
  ASSERT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_EQ(groups(Json::parse(fits.out), "tp"), (Domains{{"slice", 2}}));
  EXPECT_EQ(groups(Json::parse(fits.out), "dp"), (Domains{{"slices", 8}}));

  // Sixteen in one group are in both slices, and pay for the network between them.
  const Json wide = Json::parse(split(1, 16).out);
  EXPECT_EQ(groups(wide, "tp"), (Domains{{"slices", 1}}));
  EXPECT_GE(wide.at("stages")[0].at("time").at("collective_s"), 1e6 / 2 / 8 / 6.25e9 + 10e-6);
  EXPECT_EQ(split(1, 16, kept).exit_code, 3);

  // Four copies of four are two in each slice, not one in each of four.
  const Json four = Json::parse(split(4, 4, kept).out);
  EXPECT_EQ(four.at("devices").at("used"), 16);
  EXPECT_EQ(groups(four, "dp"), (Domains{{"slices", 4}}));

  const Outcome beyond = split(2, 16);
  EXPECT_EQ(beyond.exit_code, 3) << "32 of 16";
}

// N14 — NVIDIA/Megatron-LM issues 792, 545 and 561
TEST_F(NetworkCommand, CaseN14FiveNodesOfEightAreAllUsed) {
  write_json("model.json", llama(40, 4096, 32, 51200));
  const Words one{"--micro-batch", "1", "--seq", "2048"};
  write_json("machine.json", cluster({{8, "450 GB/s"}, {5, "50 GB/s"}}, "32 GB"));
  const Json five = planned("model", 400, one);
  EXPECT_EQ(five.at("devices").at("used"), 40);
  const Json& strategy = five.at("strategy");
  EXPECT_EQ(400 % strategy.at("dp").get<int>(), 0);
  EXPECT_EQ(strategy.at("dp").get<int>() * strategy.at("microbatches").get<int>(), 400);

  Json eight = cluster({{8, "450 GB/s"}, {8, "50 GB/s"}}, "32 GB");
  eight["hosts"] = "n[1-8]";
  write_json("machine.json", eight);
  const Json healthy = planned("model", 400, one + Words{"--exclude", "n[3,5,8]"});
  EXPECT_EQ(healthy.at("devices").at("used"), 40);
  EXPECT_EQ(healthy.at("iteration_time_s"), five.at("iteration_time_s"));
  EXPECT_EQ(healthy.at("placement").at("host_list"), "n[1-2,4,6-7]");
  const Json four = planned("model", 400, one + Words{"--nodelist", "n[1-4]"});
  EXPECT_GT(four.at("iteration_time_s"), healthy.at("iteration_time_s"));
}

// Nothing is left to compare with where every host misses a device.
TEST_F(NetworkCommand, CaseN14PlansGoOnWhereNoHostIsWhole) {
  Json machine = cluster({{2, "450 GB/s"}, {2, "50 GB/s"}});
  machine["hosts"] = "n[0-1]";
  machine["unavailable"] = {{"hosts", "n0"}, {"devices", {"n1:0"}}};
  write_json("machine.json", machine);
  write_json("graph.json", chain({1, 1}));
  const Outcome outcome = run(plan("graph", 8));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Outcome refused = run(plan("graph", 8, {"--whole-hosts"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(has(refused.err, "--whole-hosts: every host misses a device"));
}

// N15 — NVIDIA/Megatron-LM issue 1757, FlagScale pull request 854
TEST_F(NetworkCommand, CaseN15LayersFollowSpeedAndMemory) {
  Json graph = chain(std::vector<double>(48, 1));
  for (Json& layer : graph["layers"]) {
    layer["costs"]["one"]["parameters"] = 1 << 30;
    layer["costs"]["one"]["activation_bytes"] = 0;
  }
  write_json("graph.json", graph);
  Json machine = cluster({{2, "450 GB/s"}}, "80 GiB");
  Json slow = machine["device"];
  slow["name"] = "slow";
  slow["speed"] = 0.5;
  slow["places"] = "1";
  const Words two{"--pp",        "2",    "--dp",          "1",    "--zero", "0",
                  "--recompute", "none", "--state-bytes", "1,0,0"};
  for (const auto& [memory, first] : {std::pair("40 GiB", 32), {"10 GiB", 38}}) {
    slow["memory"] = memory;
    machine["other_devices"] = Json::array({slow});
    write_json("machine.json", machine);
    const Json plan = planned("graph", 1024, two);
    EXPECT_EQ(plan.at("stages")[0].at("layers").size(), static_cast<std::size_t>(first)) << memory;
    EXPECT_EQ(plan.at("stages")[1].at("layers").size(), static_cast<std::size_t>(48 - first));
    EXPECT_NEAR(plan.at("stages")[0].at("time").at("total_s"), first, 1e-4);
    EXPECT_NEAR(plan.at("stages")[1].at("time").at("total_s"), 2 * (48 - first), 1e-4);
  }
}

}  // namespace
}  // namespace nestplan::cases

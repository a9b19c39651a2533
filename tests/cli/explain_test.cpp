#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

class ExplainTest : public Workspace {
 protected:
  void SetUp() override {
    Workspace::SetUp();
    Json cluster = small_cluster();
    cluster["device"]["memory"] = "60 MB";
    write_json("cluster.json", cluster);
  }

  Json ask(const Words& more, int exit_code = 0) const {
    Words flags{"--json", "-q"};
    flags.insert(flags.end(), more.begin(), more.end());
    const Outcome outcome = run(on_small({"plan"}, flags));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    return Json::parse(outcome.out);
  }

  /// What a neighbour's words mean on the command line.
  static Words flags_of(const std::string& change) {
    const std::string to = change.substr(change.find(' ') + 1);
    const std::string first = change.substr(0, change.find(' '));
    const std::string value = to.substr(0, to.find(' '));
    if (first == "ZeRO") return {"--zero", value, "--json"};
    if (change.find("recomputation") != std::string::npos) {
      return {"--recompute", first == "no" ? "none" : first, "--json"};
    }
    return {"--" + (first == "dp_inner" ? "dp-inner" : first), value, "--json"};
  }
};

Json without_search(Json plan) {
  plan.erase("search");
  return plan;
}

Json degrees_of(const Json& plan) {
  Json key = plan["strategy"];
  for (const char* other : {"dp_inner", "dp_outer", "microbatches", "schedule"}) key.erase(other);
  for (const char* degree : {"tp", "cp", "ep"}) key[degree] = plan["stages"][0][degree];
  return key;
}

TEST_F(ExplainTest, NeighboursAreSearchesOfTheirOwn) {
  Json answer = ask({"--explain"});
  const double time = answer["iteration_time_s"];
  const Json split = answer["time_split"];
  std::set<std::string> kinds;
  ASSERT_GT(answer["explanation"]["neighbours"].size(), 6U);
  for (const Json& row : answer["explanation"]["neighbours"]) {
    const std::string change = row["change"];
    SCOPED_TRACE(row.dump());
    kinds.insert(change.substr(0, change.find(' ')));
    EXPECT_TRUE(row["sentence"].get<std::string>().starts_with(change));
    const Outcome outcome = run(on_small({"plan"}, flags_of(change)));
    if (row["iteration_time_s"].is_null()) {
      EXPECT_EQ(row["status"], "infeasible");
      EXPECT_NE(outcome.exit_code, 0);
      EXPECT_FALSE(row["reason"].get<std::string>().empty());
      continue;
    }
    const Json plan = Json::parse(outcome.out);
    EXPECT_EQ(row["iteration_time_s"], plan["iteration_time_s"]);
    EXPECT_EQ(row["strategy"], plan["strategy"]);
    EXPECT_DOUBLE_EQ(row["slower"], plan["iteration_time_s"].get<double>() / time - 1);
    EXPECT_TRUE(!row["offered"].get<bool>() || row["slower"].get<double>() >= 0);
    double sum = 0;
    for (const auto& [key, seconds] : row["time_split_change"].items()) {
      sum += seconds.get<double>();
    }
    EXPECT_NEAR(sum, plan["iteration_time_s"].get<double>() - time, 1e-9 * time);
  }
  EXPECT_TRUE(kinds.contains("tp"));
  EXPECT_TRUE(kinds.contains("dp"));
  EXPECT_TRUE(kinds.contains("pp"));
  answer.erase("explanation");
  EXPECT_EQ(without_search(answer), without_search(ask({}))) << "the plan itself is as ever";
}

TEST_F(ExplainTest, WhatWasNotOfferedIsSaidToBe) {
  const Json rows = ask({"--explain", "--pp", "1", "--zero", "0"})["explanation"]["neighbours"];
  const auto not_offered = [&](const std::string& change) {
    return std::any_of(rows.begin(), rows.end(), [&](const Json& row) {
      return row["change"] == change && !row["offered"].get<bool>();
    });
  };
  EXPECT_TRUE(not_offered("pp 2 instead of 1")) << rows;
  EXPECT_TRUE(not_offered("ZeRO 1 in every stage")) << rows;
}

TEST_F(ExplainTest, LimitsAreSearchesOfTheirOwn) {
  const Json answer = ask({"--explain"});
  const Json& limits = answer["explanation"]["limits"];
  const double time = answer["iteration_time_s"];
  Json cluster = small_cluster();
  cluster["device"]["memory"] = "1 TB";
  write_json("cluster.json", cluster);
  EXPECT_NEAR(limits["gain_without_memory_limit"],
              1 - ask({})["iteration_time_s"].get<double>() / time, 1e-12);
  cluster["device"]["memory"] = "60 MB";
  write_json("cluster.json", cluster);
  const Outcome twice = run({"plan", "--graph", path("graph.json"), "--cluster",
                             path("cluster.json"), "--global-batch", "32", "--json"});
  EXPECT_NEAR(limits["gain_of_twice_the_batch"],
              1 - Json::parse(twice.out)["iteration_time_s"].get<double>() / 2 / time, 1e-12);
  EXPECT_EQ(limits["gain_of_twice_the_bandwidth"].size(), cluster["network"]["levels"].size());
  double fullest = 0;
  std::size_t stage = 0;
  for (std::size_t s = 0; s < answer["stages"].size(); ++s) {
    const double bytes = answer["stages"][s]["memory"]["total_bytes"];
    if (bytes > fullest) {
      fullest = bytes;
      stage = s + 1;
    }
  }
  EXPECT_EQ(limits["fullest_stage"], stage);
}

/// The small graph with gradients and collectives that weigh as much as its computation.
Json weighty_graph() {
  Json graph = small_graph();
  for (Json& layer : graph["layers"]) {
    layer["costs"]["tp1"]["parameters"] = 20'000'000;
    layer["costs"]["tp2"]["parameters"] = 10'000'000;
    for (const char* phase : {"forward", "backward"}) {
      layer["costs"]["tp2"]["collectives"].push_back(
          {{"phase", phase}, {"op", "all_reduce"}, {"group", "tp"}, {"bytes", 4'000'000}});
    }
  }
  return graph;
}

/// One term of the inputs times `factor`.
void scale(const std::string& term, double factor, Json& graph, Json& cluster) {
  const auto multiply = [&](Json& number) { number = number.get<double>() * factor; };
  for (Json& layer : graph["layers"]) {
    for (auto& [strategy, cost] : layer["costs"].items()) {
      if (term == "compute") {
        multiply(cost["forward_s"]);
        multiply(cost["backward_s"]);
      } else if (term == "tensor collectives" && cost.contains("collectives")) {
        for (Json& collective : cost["collectives"]) multiply(collective["bytes"]);
      }
    }
  }
  for (Json& edge : graph["edges"]) {
    if (term == "transfers") multiply(edge["bytes"]);
  }
  for (Json& level : cluster["network"]["levels"]) {
    if (term != "network: " + level["name"].get<std::string>()) continue;
    const double bandwidth = level["name"] == "node" ? 100e9 : 10e9;
    level["bandwidth"] = fmt::format("{:.6f} B/s", bandwidth / factor);
  }
}

TEST_F(ExplainTest, MarginsAreWhereSearchesOfScaledInputsChangeTheirMind) {
  const Json graph = weighty_graph();
  const Json cluster = small_cluster();
  write_json("graph.json", graph);
  write_json("cluster.json", cluster);
  const Json answer = ask({"--explain"});
  const Json key = degrees_of(answer);
  std::set<std::string> crossed;
  for (const Json& term : answer["explanation"]["margins"]["terms"]) {
    const std::string name = term["term"];
    if (name == "data parallel") continue;  // no input is that alone
    const auto best_at = [&](double factor) {
      Json other_graph = graph;
      Json other_cluster = cluster;
      scale(name, factor, other_graph, other_cluster);
      write_json("graph.json", other_graph);
      write_json("cluster.json", other_cluster);
      return degrees_of(ask({}));
    };
    for (const char* side : {"cheaper", "dearer"}) {
      SCOPED_TRACE(name + " " + term[side].dump());
      EXPECT_EQ(term[side]["searched"], true);
      if (term[side]["factor"].is_null()) {
        EXPECT_EQ(best_at(side == std::string("dearer") ? 4 : 0.25), key);
        continue;
      }
      const double factor = term[side]["factor"];
      EXPECT_EQ(best_at(1 + (factor - 1) * 0.99), key);
      const Json after = best_at(1 + (factor - 1) * 1.01);
      EXPECT_NE(after, key);
      for (const auto& [degree, value] : term[side]["winner"].items()) {
        EXPECT_EQ(after[degree], value) << degree;
      }
      EXPECT_DOUBLE_EQ(term[side]["share"], std::abs(factor - 1));
      crossed.insert(name);
    }
  }
  EXPECT_GE(crossed.size(), 4U) << "the case is meant to have crossings";
}

TEST_F(ExplainTest, MarginsOfTheBestPlansAreNoNarrowerThanThoseOfAll) {
  write_json("graph.json", weighty_graph());
  write_json("cluster.json", small_cluster());
  const Json few = ask({"--top", "3"})["margins"];
  EXPECT_EQ(few["plans"], 3);
  const Json all = ask({"--explain", "--top", "3"})["explanation"]["margins"];
  ASSERT_EQ(few["terms"].size(), all["terms"].size());
  for (std::size_t i = 0; i < few["terms"].size(); ++i) {
    for (const char* side : {"cheaper", "dearer"}) {
      EXPECT_EQ(few["terms"][i][side]["searched"], false);
      if (few["terms"][i][side]["share"].is_null()) continue;
      ASSERT_FALSE(all["terms"][i][side]["share"].is_null());
      EXPECT_LE(all["terms"][i][side]["share"], few["terms"][i][side]["share"]);
    }
  }
  double least = 4;
  for (const Json& term : all["terms"]) {
    for (const char* side : {"cheaper", "dearer"}) {
      if (!term[side]["share"].is_null()) least = std::min<double>(least, term[side]["share"]);
    }
  }
  EXPECT_EQ(all["robust_share"], least);
}

TEST_F(ExplainTest, APlanThatIsComparedWithNoneIsNotCalledRobust) {
  const std::string alone = run(on_small({"plan"}, {"--top", "1", "-q"})).out;
  EXPECT_NE(alone.find("robust      not known, nothing is compared"), std::string::npos) << alone;
  EXPECT_EQ(alone.find("how far one term may be off"), std::string::npos) << alone;
  EXPECT_TRUE(ask({"--top", "1"})["margins"]["within_factor"].is_null());
  EXPECT_EQ(ask({"--top", "2"})["margins"]["within_factor"], 4);

  const Words only{
      "--dp", "1", "--pp", "1", "--tp", "1", "--micro-batch", "1", "--vpp", "1", "--memory-margin",
      "0%"};
  Words many = only;
  many.insert(many.end(), {"--top", "3", "-q"});
  write_json("cluster.json", small_cluster());
  const std::string single = run(on_small({"plan"}, many)).out;
  EXPECT_NE(single.find("robust      to any one term: no other strategy"), std::string::npos)
      << single;
}

TEST_F(ExplainTest, ForPeople) {
  const Outcome outcome = run(on_small({"plan"}, {"--explain", "--top", "2", "-q"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"\nwhy ", "\nbest plans of different strategies", "\nneighbours, ",
                           "slower with dp ", "\nhow far one term may be off", "\nrobust "}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in\n" << outcome.out;
  }
}

TEST_F(ExplainTest, NothingThatFitsHasNoNeighbours) {
  const Json answer = ask({"--explain", "--memory-margin", "99%"}, 3);
  EXPECT_EQ(answer["status"], "infeasible");
  EXPECT_TRUE(answer["explanation"].is_null());
}

}  // namespace
}  // namespace nestplan::test

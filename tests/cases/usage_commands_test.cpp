// A planner that says what it does, does the same again, and ends.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cases/command_cases.hpp"
#include "cli/flags.hpp"

namespace nestplan::cases {
namespace {

class UsageCommand : public CommandCase {
 protected:
  void SetUp() override {
    CommandCase::SetUp();
    write_json("graph.json", chain({1, 2, 1, 3, 1, 2}));
    write_json("model.json", llama());
    write_json("machine.json", cluster({{4, "450 GB/s"}, {2, "50 GB/s"}}));
  }

  /// A graph and a machine on which a search takes long.
  void write_long_search() const {
    Json graph = chain(std::vector<double>(1200, 1e-3));
    for (std::size_t i = 0; i < 1200; ++i) {
      Json& cost = graph["layers"][i]["costs"]["one"];
      cost["forward_s"] = 1e-4 * static_cast<double>(3 + i * 7 % 11);
      cost["parameters"] = 1e8;
    }
    for (Json& edge : graph["edges"]) edge["bytes"] = 1e6;
    write_json("graph.json", graph);
    write_json("machine.json", cluster({{8, "300 GB/s"}, {512, "25 GB/s"}}));
  }

  void expect_refusal(const Words& words, const std::vector<std::string>& says) const {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_TRUE(test::is_one_line(outcome.err));
    EXPECT_EQ(outcome.out, "");
    for (const std::string& part : says) EXPECT_TRUE(has(outcome.err, part));
  }
};

// U01 — alpa-projects/alpa issue 882
TEST_F(UsageCommand, CaseU01NothingFitsIsAStatusWithNumbers) {
  Json model = llama(80, 8192, 64, 128256);
  model["num_key_value_heads"] = 8;
  model["intermediate_size"] = 28672;
  write_json("model.json", model);
  write_json("machine.json", cluster({{8, "450 GB/s"}}, "16 GiB"));
  const Outcome outcome = run(plan("model", 64, {"--json"}));
  EXPECT_EQ(outcome.exit_code, 3);
  const Json plan = Json::parse(outcome.out);
  EXPECT_EQ(plan.at("status"), "infeasible");
  EXPECT_TRUE(plan.at("iteration_time_s").is_null());
  const Json& shortfall = plan.at("shortfall");
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  EXPECT_EQ(shortfall.at("limit"), "memory");
  EXPECT_NEAR(shortfall.at("state_bytes").get<double>() / 8 / kGiB, 147.8, 0.1);
  EXPECT_EQ(shortfall.at("least_devices"), 74);
  EXPECT_GT(shortfall.at("required_bytes"), shortfall.at("available_bytes"));
  EXPECT_LE(shortfall.at("available_bytes"), 16 * kGiB);
  const std::string reason = plan.at("reason");
  for (const char* part : {"memory", "147.8", "at least 74 such devices", "least change: devices"})
    EXPECT_TRUE(has(reason, part));
}

TEST_F(UsageCommand, CaseU01TheChangeThatIsAskedForIsEnough) {
  for (const char* memory : {"1 GiB", "2 GiB", "3 GiB"}) {
    write_json("machine.json", cluster({{2, "450 GB/s"}}, memory));
    const Outcome outcome = run(plan("model", 64, {"--json"}));
    ASSERT_EQ(outcome.exit_code, 3) << memory;
    const std::string reason = Json::parse(outcome.out).at("reason");
    const std::string phrase = "devices with ";
    const std::size_t at = reason.find(phrase);
    ASSERT_NE(at, std::string::npos) << reason;
    const std::string bytes = reason.substr(
        at + phrase.size(), reason.find(' ', at + phrase.size()) - at - phrase.size());
    write_json("machine.json", cluster({{2, "450 GB/s"}}, bytes + " B"));
    EXPECT_EQ(run(plan("model", 64)).exit_code, 0) << reason;
  }
}

// U02 — huggingface/transformers issue 27830
TEST_F(UsageCommand, CaseU02BadInputIsNotCalledInfeasible) {
  const Words missing{
      "plan",           "--graph", path("missing.json"), "--cluster", path("machine.json"),
      "--global-batch", "8"};
  expect_refusal(missing, {"missing.json"});
  for (const char* key : {"forward_s", "backward_s"}) {
    for (const double value : {0.0, -1.0}) {
      if (value == 0 && key == std::string("backward_s")) continue;  // frozen layers
      Json graph = chain({1, 1, 1});
      graph["layers"][1]["costs"]["one"][key] = value;
      write_json("graph.json", graph);
      expect_refusal(plan("graph", 8), {"graph.json", std::string("layers[1].costs.one.") + key});
    }
  }
  Json lookup = chain({1, 1, 1});
  lookup["layers"][0]["costs"]["one"]["forward_s"] = 0;
  write_json("graph.json", lookup);
  EXPECT_EQ(run(plan("graph", 8)).exit_code, 0) << "a lookup may take none";
}

// U03 — deepspeedai/DeepSpeed pull request 8421
TEST_F(UsageCommand, CaseU03CandidatesThatDoNotFitAreCountedAndNoneIsTaken) {
  // micro-batches of 1 and of 4 do not fit in any way, those of 2 do
  Json graph = chain({1, 1});
  graph["strategies"].clear();
  for (Json& layer : graph["layers"]) {
    const Json cost = layer["costs"]["one"];
    layer["costs"].clear();
    for (const int size : {1, 2, 4}) {
      layer["costs"]["mb" + std::to_string(size)] = cost;
      const double bytes = size == 2 ? 1e6 : 1e15;
      layer["costs"]["mb" + std::to_string(size)]["activation_bytes"] = bytes;
    }
  }
  for (const int size : {1, 2, 4}) {
    graph["strategies"].push_back(
        {{"id", "mb" + std::to_string(size)}, {"tp", 1}, {"micro_batch", size}});
  }
  write_json("graph.json", graph);
  const Json plan = planned("graph", 16);
  EXPECT_EQ(plan.at("strategy").at("micro_batch"), 2);
  std::int64_t left_out = 0;
  for (const auto& [reason, count] : plan.at("search").at("rejected").items()) {
    left_out += has(reason, "memory") ? count.get<std::int64_t>() : 0;
  }
  EXPECT_GT(left_out, 0) << plan.at("search");
}

// U04 — deepspeedai/DeepSpeed issue 4100
TEST_F(UsageCommand, CaseU04ASearchEndsWhenItsTimeIsUp) {
  write_long_search();
  for (const char* limit : {"0.2", "1.5"}) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = run(plan("graph", 4096, {"--time-limit", limit, "--json"}));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(taken.count(), std::stod(limit) + 20) << "with slack for a busy machine";
    EXPECT_EQ(outcome.exit_code, 4);
    const Json plan = Json::parse(outcome.out);
    if (plan.at("status") == "feasible") {
      EXPECT_GT(plan.at("gap"), 0) << "the best so far, and how good it is at least";
    }
  }
}

// U05 — PKU-DAIR/Hetu-Galvatron
TEST_F(UsageCommand, CaseU05NothingFitsIsNotSuccess) {
  write_json("model.json", llama(40, 5120, 40));
  write_json("machine.json", cluster({{8, "450 GB/s"}}, "1 GiB"));
  const Outcome outcome = run(plan("model", 64, {"-o", path("plan.json")}));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_TRUE(has(outcome.out, "infeasible"));
  // what is written says so, and nothing takes it for a plan
  const Json written = Json::parse(test::read_file(path("plan.json")));
  EXPECT_EQ(written.at("status"), "infeasible");
  EXPECT_TRUE(written.at("stages").empty());
  const Outcome used = run({"evaluate", path("plan.json"), "--model", path("model.json"),
                            "--cluster", path("machine.json"), "--global-batch", "64"});
  EXPECT_EQ(used.exit_code, 2);
}

// U07 — hpcaitech/ColossalAI issue 2853

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST_F(UsageCommand, CaseU07RepeatedBlocksAreQuick) {
  write_json("machine.json", cluster({{8, "300 GB/s"}, {512, "25 GB/s"}}));
  std::map<int, double> taken;
  for (const int blocks : {12, 48, 126, 1000}) {
    Json graph = chain(std::vector<double>(static_cast<std::size_t>(blocks), 1e-3));
    for (Json& layer : graph["layers"]) {
      layer["costs"]["one"]["parameters"] = 1e8;
      layer["costs"]["one"]["activation_bytes"] = 1e7;
    }
    for (Json& edge : graph["edges"]) edge["bytes"] = 1e6;
    write_json("graph.json", graph);
    const double before = cpu_seconds();
    const Json plan = planned("graph", 4096);
    taken[blocks] = cpu_seconds() - before;
    EXPECT_EQ(plan.at("status"), "optimal");
    EXPECT_GT(plan.at("search").at("cells"), 0) << "statistics of the search";
    // between the ends, stages that hold equally many of equal layers are set alike
    std::map<std::size_t, std::set<std::string>> settings;
    for (std::size_t s = 1; s + 1 < plan.at("stages").size(); ++s) {
      const Json& stage = plan["stages"][s];
      settings[stage.at("layers").size()].insert(stage.at("strategy").dump() +
                                                 stage.at("zero").dump());
    }
    for (const auto& [size, kinds] : settings) EXPECT_EQ(kinds.size(), 1U) << size << " layers";
  }
  EXPECT_LT(taken[126], 60);
  constexpr double kStartUp = 0.05;
  EXPECT_LT(taken[1000] / std::max(taken[12], kStartUp), 1000.0 / 12 * 1000 / 12 / 4);
}

// U09 — google/or-tools issue 4195
TEST_F(UsageCommand, CaseU09AnyNumberOfRanksGivesTheSameBytes) {
  const Words words = plan("model", 64, {"--json", "--per-stage-strategies"});
  const std::string alone = without_search(Json::parse(run(words).out)).dump();
  for (const int ranks : {1, 2, 3, 7}) {
    for (int repetition = 0; repetition < 5; ++repetition) {
      const Outcome outcome = run_on(ranks, words);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      ASSERT_EQ(without_search(Json::parse(outcome.out)).dump(), alone) << ranks << " ranks";
    }
  }
}

// U10 — stg-tud/MUBench issue 77
void expect_finite(const Json& value, const std::string& path) {
  if (value.is_number()) {
    EXPECT_TRUE(std::isfinite(value.get<double>())) << path;
  } else if (value.is_structured()) {
    for (const auto& [key, member] : value.items()) expect_finite(member, path + "/" + key);
  }
}

TEST_F(UsageCommand, CaseU10NothingIsInfiniteInOrOut) {
  for (const char* bandwidth : {"NaN GB/s", "nan", "inf GB/s", "-inf GB/s", "1e999 GB/s"}) {
    Json machine = cluster({{4, "450 GB/s"}});
    machine["network"]["levels"][0]["bandwidth"] = bandwidth;
    write_json("machine.json", machine);
    expect_refusal(plan("graph", 8), {"machine.json", "network.levels[0].bandwidth"});
  }
  const std::string text = cluster({{4, "450 GB/s"}}).dump();
  for (const char* number : {"NaN", "1e999", "-Infinity"}) {
    std::string broken = text;
    broken.replace(broken.find("\"450 GB/s\""), 10, number);
    write("machine.json", broken);
    expect_refusal(plan("graph", 8), {"machine.json"});
  }
  write_json("machine.json", cluster({{4, "450 GB/s"}}));
  for (const char* key : {"forward_s", "backward_s", "parameters", "activation_bytes"}) {
    std::string broken = chain({1, 1}).dump();
    Json graph = chain({1, 1});
    graph["layers"][1]["costs"]["one"][key] = 123456789;
    broken = graph.dump();
    broken.replace(broken.find("123456789"), 9, "1e999");
    write("graph.json", broken);
    expect_refusal(plan("graph", 8), {"graph.json"});
  }
}

TEST_F(UsageCommand, CaseU10WhatIsNotKnownIsNull) {
  write_json("machine.json", cluster({{2, "450 GB/s"}}, "1 kB"));
  const Outcome outcome = run(plan("graph", 8, {"--json", "--what-if"}));
  EXPECT_EQ(outcome.exit_code, 3);
  const Json plan = Json::parse(outcome.out);  // strict: no NaN, no infinity
  EXPECT_TRUE(plan.at("iteration_time_s").is_null());
  EXPECT_TRUE(plan.at("throughput").at("samples_per_s").is_null());
  for (const Json& row : plan.at("what_if")) {
    if (row.at("status") == "infeasible") {
      EXPECT_TRUE(row.at("iteration_time_s").is_null());
    }
  }
  expect_finite(plan, "");
  for (const char* kind : {"graph", "model"}) {
    write_json("machine.json", cluster({{2, "450 GB/s"}}));
    expect_finite(planned(kind, 8, {"--what-if", "--target", "any"}), "");
  }
}

// U11 — msr-fiddle/pipedream issue 29
TEST_F(UsageCommand, CaseU11UnitsAreReadAndRequired) {
  const std::vector<std::vector<std::string>> same{
      {"400 Gb/s", "50 GB/s", "0.4 Tb/s", "50000 MB/s", "50 GB / s"},
      {"8 Gb/s", "1 GB/s", "1e3 MB/s"}};
  for (const auto& spellings : same) {
    std::optional<Json> first;
    for (const std::string& bandwidth : spellings) {
      if (bandwidth == "50 GB / s") continue;
      write_json("machine.json", cluster({{4, "450 GB/s"}, {2, bandwidth}}));
      const Json plan = without_search(planned("model", 64));
      if (!first) first = plan;
      EXPECT_EQ(plan, *first) << bandwidth;
    }
  }
  for (const Json& bare : {Json("50"), Json(50), Json("50 GB"), Json("50 s"), Json("fast")}) {
    Json machine = cluster({{4, "450 GB/s"}});
    machine["network"]["levels"][0]["bandwidth"] = bare;
    write_json("machine.json", machine);
    expect_refusal(plan("graph", 8), {"machine.json", "network.levels[0].bandwidth"});
  }
}

TEST_F(UsageCommand, CaseU11LinksInsideAndBetweenNodesAreNotMixedUp) {
  const auto data_parallel_s = [&](const std::string& inside, const std::string& between) {
    write_json("machine.json", cluster({{4, inside}, {4, between}}));
    return planned("model", 64, {"--dp", "16", "--tp", "1", "--zero", "0"})
        .at("time_split")
        .at("data_parallel_s")
        .get<double>();
  };
  EXPECT_LT(1.2 * data_parallel_s("450 GB/s", "50 GB/s"), data_parallel_s("50 GB/s", "450 GB/s"));
  write_json("machine.json", cluster({{4, "450 GB/s"}, {4, "50 GB/s"}}));
  const std::string shown = run({"inspect", path("machine.json")}).out;
  EXPECT_TRUE(has(shown, "450 GB/s"));
  EXPECT_TRUE(has(shown, "50 GB/s"));
}

// U13 — aliyun/SimAI issue 34
TEST_F(UsageCommand, CaseU13NumbersOfDevicesAreCompared) {
  const Words dp{"--tp", "1", "--pp", "1", "--micro-batch", "1"};
  for (const auto& [from, to] : {std::pair{4, 1}, {1, 4}, {4, 9}}) {
    write_json("machine.json", cluster({{8, "450 GB/s"}, {from, "50 GB/s"}}));
    planned("model", 2304, dp + Words{"--dp", std::to_string(8 * from), "-o", path("plan.json")});
    write_json("machine.json", cluster({{8, "450 GB/s"}, {to, "50 GB/s"}}));
    const Outcome outcome =
        run({"evaluate", path("plan.json"), "--model", path("model.json"), "--cluster",
             path("machine.json"), "--global-batch", "2304", "--json"});
    EXPECT_EQ(outcome.exit_code, from > to ? 3 : 0);
    EXPECT_TRUE(has(outcome.err, std::to_string(8 * from) + " devices"));
    EXPECT_TRUE(has(outcome.err, std::to_string(8 * to)));
    if (from <= to) continue;
    const std::string reason = Json::parse(outcome.out).at("reason");
    EXPECT_TRUE(has(reason, std::to_string(8 * from)));
    EXPECT_TRUE(has(reason, std::to_string(8 * to)));
  }
}

TEST_F(UsageCommand, CaseU13ASubsetOfTheDevicesIsAskedForByName) {
  Json machine = cluster({{8, "450 GB/s"}, {16, "50 GB/s"}});
  machine["network"]["devices"] = 8;
  write_json("machine.json", machine);
  EXPECT_EQ(planned("model", 64).at("devices").at("total"), 8);
  machine["network"]["devices"] = 129;
  write_json("machine.json", machine);
  expect_refusal(plan("model", 64), {"129", "128"});
}

// U14 — astra-sim/astra-sim issue 207

struct Change {
  const char* what;
  std::function<void(Json&)> apply;
};

TEST_F(UsageCommand, CaseU14TimesReactToTheMachine) {
  const Words copies{"--dp", "16", "--dp-inner", "1", "--tp",          "1",
                     "--pp", "1",  "--zero",     "0", "--micro-batch", "1"};
  const Json machine = [&] {
    Json base = cluster({{4, "450 GB/s"}, {4, "50 GB/s"}});
    for (Json& level : base["network"]["levels"]) level["latency"] = "0 s";
    return base;
  }();
  const auto split = [&](const Json& document, const char* item) {
    write_json("machine.json", document);
    return planned("model", 64, copies).at("time_split").at(item).get<double>();
  };
  // of a collective over two levels, what crosses nodes
  Json fast = machine;
  fast["network"]["levels"][0]["bandwidth"] = "1000000 TB/s";
  const double once = split(fast, "data_parallel_s");
  EXPECT_GT(once, 0);
  for (const double factor : {0.25, 0.5, 2.0, 4.0}) {
    Json other = fast;
    other["network"]["levels"][1]["bandwidth"] = std::to_string(50 * factor) + " GB/s";
    EXPECT_NEAR(split(other, "data_parallel_s") * factor / once, 1, 1e-6) << factor;
  }
  // products of matrices follow the rate of the device, if its memory does too
  const double compute = split(machine, "compute_s");
  Json twice = machine;
  twice["device"]["peak"]["bf16"] = "1800 TFLOP/s";
  const double faster = split(twice, "compute_s");
  EXPECT_LT(faster, 0.9 * compute);
  twice["device"]["memory_bandwidth"] = "6 TB/s";
  EXPECT_LT(split(twice, "compute_s"), faster);
  EXPECT_GT(split(twice, "compute_s"), 0.45 * compute);
  // a latency is added
  Json slow = machine;
  slow["network"]["levels"][1]["latency"] = "1 ms";
  EXPECT_GT(split(slow, "data_parallel_s"), split(machine, "data_parallel_s") + 1e-3);
}

TEST_F(UsageCommand, CaseU14ComputeHalvesWhereItIsAllThatCounts) {
  // one copy of a graph: its times are given, and only what is sent depends on the machine
  const Words one{"--dp", "1", "--pp", "1"};
  const double given = planned("graph", 8, one).at("time_split").at("compute_s");
  Json graph = chain({0.5, 1, 0.5, 1.5, 0.5, 1});
  write_json("graph.json", graph);
  EXPECT_NEAR(planned("graph", 8, one).at("time_split").at("compute_s").get<double>(), given / 2,
              1e-9);
}

TEST_F(UsageCommand, CaseU14LessMemoryAllowsNoMore) {
  double last = 0;
  bool fits = true;
  for (const char* memory : {"80 GB", "40 GB", "20 GB", "10 GB", "8 GB", "6 GB", "5 GB", "4 GB"}) {
    write_json("machine.json", cluster({{4, "450 GB/s"}, {2, "50 GB/s"}}, memory));
    const Outcome outcome = run(plan("model", 64, {"--json"}));
    EXPECT_TRUE(fits || outcome.exit_code == 3) << memory;
    fits = outcome.exit_code == 0;
    if (!fits) continue;
    const double now = Json::parse(outcome.out).at("iteration_time_s");
    EXPECT_GE(now, last * (1 - 1e-12)) << memory;
    last = now;
  }
  EXPECT_FALSE(fits) << "4 GB are not enough";
}

// U15 — cli99/llm-analysis issue 12

/// How an option is seen to do something.
struct Effect {
  std::string kind = "model";  ///< of input
  Words base;
  Words change;
  std::string machine = "machine.json";
};

/// Every option of `plan` that decides on the plan or on what is said about it.
const std::map<std::string, Effect>& effects() {
  static const std::map<std::string, Effect> table{
      {"seq", {"model", {}, {"--seq", "2048"}}},
      {"granularity", {"model", {"--pp", "3"}, {"--granularity", "operator"}}},
      {"micro-batch", {"model", {"--pp", "2"}, {"--micro-batch", "4"}}},
      {"tp", {"model", {}, {"--tp", "4"}}},
      {"cp", {"model", {}, {"--cp", "2"}}},
      {"context-form", {"model", {"--cp", "2"}, {"--context-form", "all_to_all"}}},
      {"ep", {"mixture", {}, {"--ep", "4"}}},
      {"etp", {"mixture", {"--tp", "2", "--ep", "2"}, {"--etp", "1"}}},
      {"pp", {"model", {}, {"--pp", "4"}}},
      {"dp", {"model", {}, {"--dp", "2"}}},
      {"dp-inner", {"model", {"--dp", "4"}, {"--dp-inner", "1"}}},
      {"vpp", {"model", {"--pp", "2"}, {"--vpp", "2"}}},
      {"recompute", {"model", {}, {"--recompute", "full"}}},
      {"zero", {"model", {}, {"--zero", "3"}}},
      {"shard", {"model", {"--zero", "3", "--dp", "8", "--dp-inner", "4"}, {"--shard", "pod"}}},
      {"per-stage-strategies", {"uneven", {"--pp", "2"}, {"--per-stage-strategies"}}},
      {"target", {"model", {}, {"--target", "megatron"}}},
      {"allow-uneven-batch", {"model", {"--dp", "3", "--tp", "1"}, {"--allow-uneven-batch"}}},
      {"no-transfer-overlap",
       {"model",
        {"--target", "megatron", "--pp", "2", "--vpp", "2", "--dp", "1", "--tp", "4"},
        {"--no-transfer-overlap"}}},
      {"overlap", {"model", {"--tp", "2"}, {"--overlap", "tensor=0.5"}}},
      {"slice", {"model", {}, {"--slice", "2x2"}, "torus.json"}},
      {"nodelist", {"model", {}, {"--nodelist", "n[0-3]"}, "racks.json"}},
      {"exclude", {"model", {}, {"--exclude", "n5"}, "racks.json"}},
      {"whole-hosts", {"model", {}, {"--whole-hosts"}, "racks.json"}},
      {"choose-nodes", {"model", {}, {"--choose-nodes", "2"}, "racks.json"}},
      {"segment", {"model", {"--choose-nodes", "4"}, {"--segment", "2"}, "whole_racks.json"}},
      {"background", {"model", {"--pp", "2"}, {"--background", "rack=50"}, "racks.json"}},
      {"keep-inside", {"model", {"--tp", "4"}, {"--keep-inside", "tp=node"}, "racks.json"}},
      {"stage-at", {"graph", {"--pp", "2"}, {"--stage-at", "last=3"}}},
      {"pin", {"graph", {"--pp", "2"}, {"--pin", "n5=first"}}},
      {"together", {"graph", {"--pp", "2"}, {"--together", "n0,n5"}}},
      {"cut", {"graph", {"--pp", "2"}, {"--cut", "n0|n1"}}},
      {"stage-layers", {"graph", {"--pp", "4"}, {"--stage-layers", "even"}}},
      {"first-stage-layers", {"graph", {"--pp", "2"}, {"--first-stage-layers", "1"}}},
      {"last-stage-layers", {"graph", {"--pp", "2"}, {"--last-stage-layers", "1"}}},
      {"least-stage-layers", {"graph", {"--pp", "3"}, {"--least-stage-layers", "2"}}},
      {"most-stage-layers", {"graph", {"--pp", "2"}, {"--most-stage-layers", "2"}}},
      {"objective", {"model", {"--pp", "2"}, {"--objective", "paper"}}},
      {"schedule", {"model", {"--pp", "2"}, {"--schedule", "gpipe"}}},
      {"state-bytes", {"model", {}, {"--state-bytes", "4,4,8"}}},
      {"attention", {"model", {}, {"--attention", "unfused"}}},
      {"no-mtp", {"predicting", {}, {"--no-mtp"}}},
      {"no-sequence-parallel", {"model", {"--tp", "4"}, {"--no-sequence-parallel"}}},
      {"vocabulary-multiple", {"model", {}, {"--vocabulary-multiple", "4096"}}},
      {"logit-bytes", {"model", {}, {"--logit-bytes", "10"}}},
      {"routing-imbalance", {"mixture", {"--ep", "4"}, {"--routing-imbalance", "2"}}},
      {"capacity-factor", {"mixture", {"--ep", "4"}, {"--capacity-factor", "2"}}},
      {"context-reserve", {"model", {}, {"--context-reserve", "5 GiB"}}},
      {"communicator-buffer", {"model", {"--dp", "8"}, {"--communicator-buffer", "2 GiB"}}},
      {"memory-margin", {"model", {}, {"--memory-margin", "20%"}}},
      {"precision", {"model", {}, {"--precision", "fp8"}}},
      {"fewest-devices", {"model", {}, {"--fewest-devices"}}},
      {"device-counts", {"model", {}, {"--device-counts", "2,4"}}},
      {"weak", {"model", {"--device-counts", "2,4"}, {"--weak"}}},
      {"what-if", {"model", {}, {"--what-if"}}},
      {"top", {"model", {}, {"--top", "2"}}},
      {"explain", {"model", {}, {"--explain"}}},
      {"pareto", {"model", {}, {"--pareto"}}},
      {"pareto-points", {"model", {"--pareto"}, {"--pareto-points", "2"}}},
      {"global-batch", {"model", {}, {"--global-batch", "128"}}},
      {"tokens", {"towers", {}, {"--tokens", "decoder=64"}}},
  };
  return table;
}

/// Those that say where inputs are, or how the program runs and where its output goes; tests of
/// their own show what they do.
const std::set<std::string>& elsewhere() {
  static const std::set<std::string> names{
      "model",   "graph",          "cluster", "time-limit", "checkpoint",  "checkpoint-every",
      "grid",    "single-process", "output",  "config",     "dump-config", "json",
      "verbose", "quiet",          "csv"};
  return names;
}

class OptionCommand : public UsageCommand {
 protected:
  void SetUp() override {
    UsageCommand::SetUp();
    write_json("mixture.json", mixture(8));
    Json predicting =
        Json::parse(std::ifstream(NESTPLAN_SOURCE_DIR "/inputs/models/deepseek-v3/config.json"));
    predicting.update({{"num_hidden_layers", 4}, {"hidden_size", 1024}, {"n_routed_experts", 8}});
    write_json("predicting.json", predicting);
    Json torus = cluster({{8, "450 GB/s"}});
    torus["network"] = Json::parse(R"({"kind": "torus", "host": [2, 1], "dimensions": [
      {"size": 4, "bandwidth": "45 GB/s", "latency": "1 us"},
      {"size": 2, "bandwidth": "45 GB/s", "latency": "1 us"}]})");
    write_json("torus.json", torus);
    Json racks = cluster({{2, "450 GB/s"}, {3, "50 GB/s"}, {2, "25 GB/s"}});
    racks["network"]["levels"][0]["name"] = "node";
    racks["network"]["levels"][1]["name"] = "rack";
    racks["hosts"] = "n[0-5]";
    write_json("whole_racks.json", racks);
    racks["unavailable"] = {{"devices", {"n0:1"}}};
    write_json("racks.json", racks);
    write_json("towers.json", {{"model_type", "t5"},
                               {"d_model", 512},
                               {"d_kv", 64},
                               {"d_ff", 2048},
                               {"num_layers", 4},
                               {"num_decoder_layers", 4},
                               {"num_heads", 8},
                               {"vocab_size", 32128},
                               {"relative_attention_num_buckets", 32},
                               {"relative_attention_max_distance", 128},
                               {"feed_forward_proj", "relu"},
                               {"tie_word_embeddings", true}});
    // the first layer takes long on one device, the second on two
    Json graph = chain({1, 1});
    graph["strategies"].push_back({{"id", "two"}, {"tp", 2}});
    Json slow = graph["layers"][0]["costs"]["one"];
    slow["forward_s"] = 5;
    graph["layers"][0]["costs"]["two"] = graph["layers"][0]["costs"]["one"];
    graph["layers"][0]["costs"]["one"] = slow;
    graph["layers"][1]["costs"]["two"] = slow;
    write_json("uneven.json", graph);
  }

  /// Exit code and plan, or whatever else is printed.
  std::pair<int, Json> answer(const Effect& effect, const Words& more) const {
    const bool graph = effect.kind == "graph" || effect.kind == "uneven";
    Words words{"plan",      graph ? "--graph" : "--model", path(effect.kind + ".json"),
                "--cluster", path(effect.machine),          "--json",
                "-q"};
    const Words all = effect.base + more;
    if (std::find(all.begin(), all.end(), "--global-batch") == all.end()) {
      words = words + Words{"--global-batch", "64"};
    }
    const Outcome outcome = run(words + all);
    EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == 3) << outcome.err;
    Json document = outcome.out.empty() ? Json() : Json::parse(outcome.out);
    document.erase("search");
    return {outcome.exit_code, document};
  }
};

TEST_F(OptionCommand, CaseU15EveryOptionCanChangeTheAnswer) {
  std::set<std::string> known;
  for (const cli::Option& option : cli::options()) {
    if (!option.belongs_to(cli::Command::kPlan)) continue;
    const std::string name(option.name);
    known.insert(name);
    if (elsewhere().contains(name)) continue;
    ASSERT_TRUE(effects().contains(name)) << "no effect is known of --" << name;
    const Effect& effect = effects().at(name);
    EXPECT_NE(answer(effect, {}), answer(effect, effect.change)) << "--" << name << " does nothing";
  }
  for (const auto& [name, effect] : effects()) {
    EXPECT_TRUE(known.contains(name)) << "there is no --" << name;
  }
}

/// Options that cannot change anything beside others, and what is said about them.
const std::vector<std::pair<Effect, std::string>>& idle_options() {
  static const std::vector<std::pair<Effect, std::string>> table{
      {{"model", {}, {"--capacity-factor", "2"}}, "--capacity-factor changes nothing"},
      {{"model", {}, {"--routing-imbalance", "2"}}, "--routing-imbalance changes nothing"},
      {{"model", {}, {"--context-form", "all_to_all"}}, "--context-form changes nothing"},
      {{"model", {"--zero", "0"}, {"--shard", "pod"}}, "--shard pod changes nothing"},
      {{"model", {"--dp", "1"}, {"--shard", "pod"}}, "--shard pod changes nothing"},
      {{"model", {"--dp", "4", "--dp-inner", "4"}, {"--shard", "pod"}},
       "--shard pod changes nothing"},
  };
  return table;
}

TEST_F(OptionCommand, CaseU15OptionsWithoutEffectAreRemarkedOn) {
  for (const auto& [effect, remark] : idle_options()) {
    const auto [code, usual] = answer(effect, {});
    auto [other_code, other] = answer(effect, effect.change);
    // By another name the shards of a single pod are those of all copies.
    for (std::size_t i = 0; i < usual.at("stages").size(); ++i) {
      if (usual["stages"][i].contains("shard"))
        other["stages"][i]["shard"] = usual["stages"][i]["shard"];
    }
    EXPECT_EQ(std::pair(code, usual), std::pair(other_code, other)) << remark;
    EXPECT_TRUE(has(run(plan("model", 64, effect.base + effect.change)).err, remark));
    EXPECT_FALSE(has(run(plan("model", 64, effect.base)).err, "changes nothing"));
  }
  for (const auto& [name, effect] : effects()) {
    if (effect.kind != "model" || effect.machine != "machine.json" || name == "global-batch")
      continue;
    const Outcome outcome = run(plan("model", 64, effect.base + effect.change));
    EXPECT_FALSE(has(outcome.err, "changes nothing")) << name;
  }
}

TEST_F(OptionCommand, CaseU15DegreesOfEveryCountAreShownWhole) {
  Words words = plan("mixture", 64,
                     {"--device-counts", "8", "--pp", "2", "--vpp", "2", "--tp", "2", "--cp", "2",
                      "--ep", "2", "--etp", "1", "--micro-batch", "1"});
  words[1] = "--model";
  const Outcome outcome = run(words);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(has(outcome.out, "…"));
  for (const char* degree : {"pp 2", "ep 2", "vpp 2", "micro-batch 1"}) {
    EXPECT_TRUE(has(outcome.out, degree));
  }
}

TEST_F(OptionCommand, CaseU15MisspeltOptionsAreRefusedWithASuggestion) {
  for (const cli::Option& option : cli::options()) {
    if (!option.belongs_to(cli::Command::kPlan) || option.name.size() < 4) continue;
    std::string misspelt(option.name);
    misspelt.pop_back();
    const Outcome outcome = run(plan("model", 64, {"--" + misspelt}));
    EXPECT_EQ(outcome.exit_code, 2) << misspelt;
    EXPECT_TRUE(has(outcome.err, "--" + std::string(option.name)));
  }
}

// U16 — what was planned before leaves no trace; see also the tests of the solver
TEST_F(OptionCommand, CaseU16OverriddenOptionsLeaveNothingBehind) {
  write("options.toml", "[plan]\npp = 4\nvpp = 2\n");
  write_json("model.json", llama(16));
  const Words file{"--config", path("options.toml")};
  const Json four = planned("model", 64, file);
  EXPECT_EQ(four.at("stages").size(), 4U);
  const Json two = planned("model", 64, file + Words{"--pp", "2"});
  EXPECT_EQ(two.at("stages").size(), 2U);
  for (const Json& stage : two.at("stages")) EXPECT_EQ(stage.at("chunks").size(), 2U);
  EXPECT_EQ(without_search(two), without_search(planned("model", 64, {"--pp", "2", "--vpp", "2"})));
}

// U17 — mlcommons/chakra issue 215
TEST_F(UsageCommand, CaseU17BrokenGraphsAreRefusedByName) {
  const auto refused = [&](const std::function<void(Json&)>& change,
                           const std::vector<std::string>& says) {
    Json graph = chain({1, 1, 1, 1});
    change(graph);
    write_json("graph.json", graph);
    expect_refusal(plan("graph", 8), says);
  };
  refused([](Json& g) { g["edges"][1]["to"] = "n9"; }, {"edges[1].to", "n9"});
  refused(
      [](Json& g) {
        g["edges"].push_back({{"from", "n3"}, {"to", "n1"}, {"bytes", 1}});
      },
      {"edges", "cycle", "\"n"});
  refused([](Json& g) { g["layers"][2]["id"] = "n1"; }, {"layers[2].id", "n1"});
  refused([](Json& g) { g["layers"][2]["costs"]["one"]["backward_s"] = -1; },
          {"layers[2].costs.one.backward_s"});
  refused([](Json& g) { g["edges"][0]["to"] = "n0"; }, {"edges[0]", "n0"});
}

TEST_F(UsageCommand, CaseU17LayersThatNothingJoinsAreRemarkedOn) {
  for (int alone = 0; alone < 4; ++alone) {
    Json graph = chain({1, 1, 1, 1});
    Json kept = Json::array();
    const std::string id = "n" + std::to_string(alone);
    for (const Json& edge : graph["edges"]) {
      if (edge["from"] != id && edge["to"] != id) kept.push_back(edge);
    }
    graph["edges"] = kept;
    write_json("graph.json", graph);
    const Outcome outcome = run(plan("graph", 8));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(
        has(outcome.err, "layers[" + std::to_string(alone) + "]: \"" + id + "\" has no edge"));
  }
  write_json("graph.json", chain({1}));
  EXPECT_FALSE(has(run(plan("graph", 8)).err, "no edge"));
}

// U18 — aliyun/SimAI issue 298: every axis by itself, and none
TEST_F(UsageCommand, CaseU18EveryAxisAlone) {
  write_json("machine.json", cluster({{8, "450 GB/s"}}));
  const Words ones{"--tp", "1", "--cp", "1", "--pp", "1", "--dp", "1"};
  EXPECT_EQ(planned("model", 64, ones).at("devices").at("used"), 1);
  for (const char* axis : {"--tp", "--cp", "--pp", "--dp"}) {
    Words words = ones;
    *(std::find(words.begin(), words.end(), axis) + 1) = "8";
    const Json plan = planned("model", 64, words);
    EXPECT_EQ(plan.at("devices").at("used"), 8) << axis;
  }
  write_json("model.json", mixture(8));
  const Json experts = planned("model", 64, {"--tp", "1", "--ep", "8", "--pp", "1"});
  EXPECT_EQ(experts.at("stages").at(0).at("ep"), 8);
}

}  // namespace
}  // namespace nestplan::cases

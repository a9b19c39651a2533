#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

class QuestionsTest : public Workspace {
 protected:
  /// The answer to a question about the small graph on a cluster with little memory.
  Json ask(const Words& more, int exit_code = 0) const {
    return json_on_small("plan", more, exit_code);
  }

  /// What `plan` says on the first `devices` devices.
  Json plan_on(int devices, const Words& more = {}) const {
    Json cluster = Json::parse(read_file(path("cluster.json")));
    cluster["network"]["devices"] = devices;
    Words words{
        "plan",  "--graph", path("graph.json"), "--cluster", write_json("part.json", cluster),
        "--json"};
    if (std::find(more.begin(), more.end(), "--global-batch") == more.end()) {
      words.insert(words.end(), {"--global-batch", "16"});
    }
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(run(words).out);
  }
};

Json without_search(Json plan) {
  plan.erase("search");
  return plan;
}

TEST_F(QuestionsTest, FewestDevicesAreThoseOfTryingAll) {
  for (const char* memory : {"20 MB", "30 MB", "45 MB", "1 GB"}) {
    set_memory(memory);
    SCOPED_TRACE(memory);
    const Json answer = ask({"--fewest-devices"});
    const Json& fewest = answer["fewest_devices"];
    int devices = 1;
    while (plan_on(devices)["status"] == "infeasible") ++devices;
    EXPECT_EQ(fewest["devices"], devices);
    EXPECT_EQ(fewest["of"], 8);
    EXPECT_EQ(fewest["proven"], true);
    if (devices == 1) {
      EXPECT_TRUE(fewest["too_few"].is_null());
    } else {
      EXPECT_EQ(fewest["too_few"]["devices"], devices - 1);
      EXPECT_EQ(fewest["too_few"]["reason"], plan_on(devices - 1)["reason"]);
      EXPECT_NE(fewest["too_few"]["reason"].get<std::string>().find("bytes"), std::string::npos);
    }
    Json plan = without_search(answer);
    plan.erase("fewest_devices");
    EXPECT_EQ(plan, without_search(plan_on(devices)));
  }
}

TEST_F(QuestionsTest, FewestDevicesOfWhatFitsNowhere) {
  set_memory("1 MB");
  const Json answer = ask({"--fewest-devices"}, 3);
  EXPECT_EQ(answer["status"], "infeasible");
  EXPECT_TRUE(answer["fewest_devices"]["devices"].is_null());
  EXPECT_EQ(answer["reason"], plan_on(8)["reason"]);
  EXPECT_EQ(run(on_small({"plan"}, {"--fewest-devices"})).exit_code, 3);
}

TEST_F(QuestionsTest, FewestDevicesForPeople) {
  set_memory("30 MB");
  const Outcome outcome = run(on_small({"plan"}, {"--fewest-devices", "-o", path("plan.json")}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\nfewest "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("nothing fits"), std::string::npos) << outcome.out;
  const Outcome again = run(on_small({"evaluate", path("plan.json")}));
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

TEST_F(QuestionsTest, DeviceCountsAreSingleSearches) {
  set_memory("30 MB");
  const Json answer = ask({"--device-counts", "8,1,4,6"});
  EXPECT_EQ(answer["scaling"], "strong");
  ASSERT_EQ(answer["rows"].size(), 4U);
  double first = 0;
  for (const Json& row : answer["rows"]) {
    SCOPED_TRACE(row.dump());
    const Json plan = plan_on(row["devices"].get<int>());
    EXPECT_EQ(row["status"], plan["status"]);
    EXPECT_EQ(row["iteration_time_s"], plan["iteration_time_s"]);
    EXPECT_EQ(row["global_batch"], 16);
    EXPECT_EQ(row["strategy"], plan["strategy"]);
    if (row["iteration_time_s"].is_null()) {
      EXPECT_EQ(row["reason"], plan["reason"]);
      EXPECT_TRUE(row["efficiency"].is_null());
      continue;
    }
    EXPECT_TRUE(row["reason"].is_null());
    const double per_device =
        16 / row["iteration_time_s"].get<double>() / row["devices"].get<double>();
    if (first == 0) first = per_device;
    EXPECT_DOUBLE_EQ(row["efficiency"], per_device / first);
    double peak = 0;
    for (const Json& stage : plan["stages"]) {
      peak = std::max(peak, stage["memory"]["total_bytes"].get<double>());
    }
    EXPECT_EQ(row["memory_bytes"], peak);
  }
  EXPECT_EQ(answer["rows"][0]["devices"], 1);
  EXPECT_EQ(answer["rows"][0]["status"], "infeasible") << "the case is meant to have such a row";
  EXPECT_GT(first, 0);
}

TEST_F(QuestionsTest, WeakScalingGrowsTheBatch) {
  const Json answer = ask({"--device-counts", "2,4,8", "--weak"});
  EXPECT_EQ(answer["scaling"], "weak");
  int batch = 16;
  for (const Json& row : answer["rows"]) {
    EXPECT_EQ(row["global_batch"], batch);
    const Json plan = plan_on(row["devices"].get<int>(), {"--global-batch", std::to_string(batch)});
    EXPECT_EQ(row["iteration_time_s"], plan["iteration_time_s"]);
    batch *= 2;
  }
}

TEST_F(QuestionsTest, NothingThatFitsOnAnyCount) {
  set_memory("1 MB");
  const Json answer = ask({"--device-counts", "2,8"}, 3);
  EXPECT_TRUE(answer["rows"][1]["samples_per_s"].is_null());
}

TEST_F(QuestionsTest, WhatIfRowsAreSearchesOfTheirOwn) {
  const Words base{"--memory-margin", "40%",  "--tp",  "1",     "--zero", "0",
                   "--recompute",     "none", "--pin", "c=last"};
  set_memory("60 MB");
  Words asked = base;
  asked.push_back("--what-if");
  Json answer = ask(asked);
  const double plain = answer["iteration_time_s"];
  const auto plan_time = [&](const Words& flags) { return ask(flags)["iteration_time_s"]; };
  const auto row = [&](const std::string& change) {
    for (const Json& each : answer["what_if"]) {
      if (each["change"] == change) return each;
    }
    ADD_FAILURE() << "no row " << change << " in " << answer["what_if"];
    return Json();
  };
  const auto with = [&](std::size_t at, const std::string& value) {
    Words flags = base;
    flags[at] = value;
    return flags;
  };
  const auto without = [&](std::size_t at) {
    Words flags = base;
    flags.erase(flags.begin() + static_cast<std::ptrdiff_t>(at),
                flags.begin() + static_cast<std::ptrdiff_t>(at) + 2);
    return flags;
  };
  EXPECT_EQ(row("no memory margin")["iteration_time_s"], plan_time(with(1, "0%")));
  EXPECT_EQ(row("without --tp")["iteration_time_s"], plan_time(without(2)));
  EXPECT_EQ(row("without --zero")["iteration_time_s"], plan_time(without(4)));
  EXPECT_EQ(row("recomputation full too")["iteration_time_s"], plan_time(with(7, "none,full")));
  EXPECT_EQ(row("without --pin")["iteration_time_s"], plan_time(without(8)));
  for (const Json& each : answer["what_if"]) {
    EXPECT_GE(each["gain"].get<double>(), 0) << "more was allowed: " << each;
    EXPECT_DOUBLE_EQ(each["gain"], 1 - each["iteration_time_s"].get<double>() / plain);
  }
  Words more_memory = base;
  set_memory("1133741824 B");  // 60 MB and 1 GiB
  EXPECT_EQ(row("1 GiB more on every device")["iteration_time_s"], plan_time(base));
  answer.erase("what_if");
  set_memory("60 MB");
  EXPECT_EQ(without_search(answer), without_search(ask(base)));
}

TEST_F(QuestionsTest, PlansInTheMarginAreSaidToBeThere) {
  set_memory("60 MB");
  const Words flags{"--what-if", "--memory-margin", "60%", "--recompute", "none", "--zero", "0"};
  const Json answer = ask(flags);
  bool some = false;
  for (const Json& each : answer["what_if"]) {
    const bool above = each["memory_bytes"].get<double>() > 60e6 * 0.4;
    if (each["change"] != "1 GiB more on every device") {
      EXPECT_EQ(each["in_margin"], above) << each;
      some = some || above;
    }
  }
  EXPECT_TRUE(some) << "the case is meant to have such a row: " << answer["what_if"];
}

TEST_F(QuestionsTest, WhatWouldMakeItFit) {
  set_memory("20 MB");
  const Json answer = ask({"--what-if", "--pp", "1", "--zero", "0", "--recompute", "none"}, 3);
  EXPECT_EQ(answer["status"], "infeasible");
  bool fits = false;
  for (const Json& each : answer["what_if"]) {
    EXPECT_TRUE(each["gain"].is_null());
    EXPECT_EQ(each["iteration_time_s"].is_null(), each["status"] == "infeasible");
    EXPECT_EQ(each["reason"].is_string(), each["status"] == "infeasible");
    fits = fits || each["status"] == "optimal";
  }
  EXPECT_TRUE(fits) << answer["what_if"];
}

TEST_F(QuestionsTest, SameOnEveryNumberOfRanks) {
  set_memory("30 MB");
  for (const Words& question : {Words{"--fewest-devices"}, Words{"--device-counts", "2,5,8"},
                                Words{"--what-if", "--tp", "1"}, Words{"--top", "3"},
                                Words{"--explain"}, Words{"--pareto"}}) {
    Words flags = question;
    flags.push_back("--json");
    const auto text = [](const Outcome& outcome) {
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      return without_search(Json::parse(outcome.out)).dump();
    };
    EXPECT_EQ(text(run_on(3, on_small({"plan"}, flags))), text(run(on_small({"plan"}, flags))));
  }
}

TEST_F(QuestionsTest, TopPlansAreTheFastestOfAllStrategies) {
  set_memory("60 MB");
  // What every combination of degrees would take, searched by itself.
  std::vector<double> times;
  for (const int micro_batch : {1, 2}) {
    for (const int tp : {1, 2}) {
      for (const int dp : {1, 2, 4, 8}) {
        for (const int pp : {1, 2, 3, 4, 5, 6}) {
          const Outcome outcome =
              run(on_small({"plan"}, {"--json", "--micro-batch", std::to_string(micro_batch),
                                      "--tp", std::to_string(tp), "--dp", std::to_string(dp),
                                      "--pp", std::to_string(pp)}));
          if (outcome.exit_code == 0) {
            times.push_back(Json::parse(outcome.out)["iteration_time_s"]);
          }
        }
      }
    }
  }
  std::sort(times.begin(), times.end());
  ASSERT_GT(times.size(), 5U);
  const Json all = ask({"--top", "1000"})["top"];
  ASSERT_EQ(all.size(), times.size());
  std::set<std::string> strategies;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_DOUBLE_EQ(all[i]["iteration_time_s"], times[i]) << "of rank " << i + 1;
    std::string strategy;
    for (const char* degree : {"micro_batch", "dp", "pp", "vpp", "tp", "cp", "ep"}) {
      strategy += all[i][degree].dump() + ' ';
    }
    EXPECT_TRUE(strategies.insert(strategy).second) << strategy << "is there twice";
  }
  Json answer = ask({"--top", "3"});
  EXPECT_EQ(answer["top"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(answer["top"][i], all[i]);
  EXPECT_EQ(answer["top"][0]["iteration_time_s"], answer["iteration_time_s"]);
  answer.erase("top");
  answer.erase("margins");
  EXPECT_EQ(without_search(answer), without_search(ask({})));
}

TEST_F(QuestionsTest, TopPlansKeepToWhatIsAllowed) {
  for (const Json& each : ask({"--top", "9", "--tp", "2", "--dp", "1,2"})["top"]) {
    EXPECT_EQ(each["tp"], 2);
    EXPECT_LE(each["dp"].get<int>(), 2);
  }
  set_memory("5 MB");
  EXPECT_TRUE(ask({"--top", "3"}, 3)["top"].empty());
}

TEST_F(QuestionsTest, TimeLimitIsForAllOfThem) {
  for (const Words& question :
       {Words{"--fewest-devices"}, Words{"--device-counts", "2,5,8"}, Words{"--what-if"},
        Words{"--top", "4"}, Words{"--explain"}, Words{"--pareto"}}) {
    Words flags = question;
    flags.insert(flags.end(), {"--time-limit", "1e-9", "--json"});
    const Outcome outcome = run(on_small({"plan"}, flags));
    EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
    EXPECT_TRUE(Json::accept(outcome.out)) << outcome.out;
  }
}

TEST_F(QuestionsTest, ClustersOfFirstDevicesAreDescribed) {
  Json cluster = small_cluster();
  cluster["network"]["devices"] = 5;
  const std::string file = write_json("part.json", cluster);
  const Outcome text = run({"inspect", file});
  EXPECT_NE(text.out.find("the first 5 of 8\n"), std::string::npos) << text.out;
  const Json json = Json::parse(run({"inspect", file, "--json"}).out);
  EXPECT_EQ(json["devices"], 5);
  EXPECT_EQ(json["levels"][0]["blocks"], 2) << "the second one is not full";
}

TEST_F(QuestionsTest, WhatDoesNotGoTogether) {
  const auto refused = [&](const Words& flags, const std::string& message) {
    const Outcome outcome = run(on_small({"plan"}, flags));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  };
  refused({"--weak"}, "--weak: --device-counts is needed");
  refused({"--what-if", "--fewest-devices"}, "one question at a time");
  refused({"--top", "3", "--per-stage-strategies"}, "--top: tells strategies apart");
  refused({"--top", "0"}, "--top: 0 is out of range");
  refused({"--explain", "--per-stage-strategies"}, "--explain: tells strategies apart");
  refused({"--explain", "--pareto"}, "--explain and --pareto: one question at a time");
  refused({"--pareto", "--top", "3"}, "--top and --pareto: one question at a time");
  refused({"--pareto", "--device-counts", "2,4", "--weak"}, "--weak: --pareto compares");
  refused({"--pareto-points", "3"}, "--pareto-points: is for --pareto");
  refused({"--pareto", "--pareto-points", "1"}, "--pareto-points: 1 is out of range");
  refused({"--csv", path("x.csv")}, "--csv: is for --pareto");
  refused({"--pareto", "-o", path("p.json")}, "--pareto: has a plan for every point");
  refused({"--pareto", "--csv", "-", "--json"}, "--json and --csv cannot share stdout");
  refused({"--pareto", "--device-counts", "9"}, "--device-counts: 9 is more than the 8 devices");
  refused({"--what-if", "--checkpoint", path("c.h5")}, "--what-if: a --checkpoint holds one");
  refused({"--device-counts", "2", "-o", path("p.json")}, "--device-counts: has a plan for every");
  refused({"--device-counts", "2,9"}, "--device-counts: 9 is more than the 8 devices of two-nodes");
  refused({"--device-counts", "0"}, "--device-counts: 0 is out of range");
  refused({"--device-counts", "3,4", "--weak"}, "--weak: a batch of 16 on 3 devices");
}

}  // namespace
}  // namespace nestplan::test

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

const std::vector<std::string> kMethods{"nestplan", "manual", "mcmc", "phaze", "alpa", "mist"};

class CompareTest : public Workspace {
 protected:
  Json compared(const Words& more = {}, int exit_code = 0) const {
    return json_on_small("compare", more, exit_code);
  }
};

std::vector<std::string> methods_of(const Json& comparison) {
  std::vector<std::string> methods;
  for (const Json& row : comparison["rows"]) methods.push_back(row["method"]);
  return methods;
}

Json without_times(Json comparison) {
  for (Json& row : comparison["rows"]) row.erase("search_s");
  return comparison;
}

TEST_F(CompareTest, EveryMethodHasARow) {
  const Json comparison = compared();
  EXPECT_EQ(methods_of(comparison), kMethods);
  EXPECT_EQ(comparison["devices"], 8);
  EXPECT_EQ(comparison["global_batch"], 16);
  const Json& own = comparison["rows"][0];
  for (const Json& row : comparison["rows"]) {
    SCOPED_TRACE(row.dump());
    EXPECT_GE(row["search_s"], 0.0);
    EXPECT_EQ(row["stopped"], false);
    if (row["iteration_time_s"].is_null()) {
      EXPECT_EQ(row["status"], "infeasible");
      EXPECT_FALSE(row["reason"].get<std::string>().empty());
      EXPECT_TRUE(row["strategy"].is_null());
      continue;
    }
    EXPECT_EQ(row["status"], "feasible");
    EXPECT_TRUE(row["reason"].is_null());
    EXPECT_GE(row["iteration_time_s"], own["iteration_time_s"].get<double>() * (1 - 1e-9));
    EXPECT_NEAR(row["samples_per_s"], 16 / row["iteration_time_s"].get<double>(), 1e-6);
    EXPECT_GT(row["memory_bytes"], 0.0);
    EXPECT_LE(row["devices"], 8);
  }
}

TEST_F(CompareTest, MethodsThatDoNotInterleaveSaySo) {
  for (const Json& row : compared({"--vpp", "2", "--pp", "2"})["rows"]) {
    if (row["method"] == "nestplan" || row["method"] == "phaze") {
      EXPECT_FALSE(row["iteration_time_s"].is_null()) << row;
    } else {
      EXPECT_TRUE(row["iteration_time_s"].is_null()) << row;
      EXPECT_NE(row["reason"].get<std::string>().find("--vpp"), std::string::npos) << row;
    }
  }
}

TEST_F(CompareTest, WhatTheTimeLimitStopsIsMarked) {
  const Json row = compared({"--methods", "phaze", "--time-limit", "0.000001"}, 4)["rows"][0];
  EXPECT_EQ(row["stopped"], true) << row;
}

TEST_F(CompareTest, TheFirstRowIsThePlan) {
  const Json plan = Json::parse(run(on_small({"plan"}, {"--json"})).out);
  const Json own = compared({"--methods", "nestplan"})["rows"][0];
  EXPECT_EQ(own["iteration_time_s"], plan["iteration_time_s"]);
  for (const char* degree : {"dp", "dp_inner", "pp", "micro_batch"}) {
    EXPECT_EQ(own["strategy"][degree], plan["strategy"][degree]) << degree;
  }
}

TEST_F(CompareTest, ThroughputIsThatOverTheRecipeByHand) {
  const Json comparison = compared({"--methods", "phaze,manual"});
  EXPECT_EQ(methods_of(comparison), (std::vector<std::string>{"manual", "phaze"}));
  const Json& manual = comparison["rows"][0];
  EXPECT_EQ(manual["throughput_over_manual"], 1.0);
  EXPECT_DOUBLE_EQ(comparison["rows"][1]["throughput_over_manual"],
                   manual["iteration_time_s"].get<double>() /
                       comparison["rows"][1]["iteration_time_s"].get<double>());
  EXPECT_TRUE(compared({"--methods", "phaze"})["rows"][0]["throughput_over_manual"].is_null());
}

TEST_F(CompareTest, RestrictionsHoldForAll) {
  const Json comparison = compared({"--tp", "2", "--pp", "2", "--recompute", "full"});
  int plans = 0;
  for (const Json& row : comparison["rows"]) {
    if (row["iteration_time_s"].is_null()) continue;
    ++plans;
    EXPECT_EQ(row["strategy"]["tp"], 2) << row.dump();
    EXPECT_EQ(row["strategy"]["pp"], 2) << row.dump();
    EXPECT_EQ(row["strategy"]["recompute"], "full") << row.dump();
  }
  EXPECT_GE(plans, 3);
}

TEST_F(CompareTest, WhatFitsNowhereIsMarked) {
  set_memory("1 MB");
  const Json comparison = compared({}, 3);
  for (const Json& row : comparison["rows"]) {
    EXPECT_TRUE(row["iteration_time_s"].is_null()) << row.dump();
    EXPECT_FALSE(row["reason"].get<std::string>().empty()) << row.dump();
  }
  const Outcome text = run(on_small({"compare"}));
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_NE(text.out.find(" X "), std::string::npos) << text.out;
}

TEST_F(CompareTest, ATableForPeople) {
  const Outcome outcome = run(on_small({"compare"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("small on "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("8 devices, global batch 16"), std::string::npos) << outcome.out;
  for (const std::string& method : kMethods) {
    EXPECT_NE(outcome.out.find("  " + method), std::string::npos) << method;
  }
  EXPECT_NE(outcome.out.find("1.00×"), std::string::npos) << outcome.out;
}

TEST_F(CompareTest, SeedsRepeat) {
  const Words once{"--methods", "mcmc", "--seed", "7", "--mcmc-steps", "50"};
  EXPECT_EQ(without_times(compared(once)), without_times(compared(once)));
}

TEST_F(CompareTest, ACsvFileHasARowForEach) {
  EXPECT_EQ(run(on_small({"compare"}, {"--csv", path("rows.csv")})).exit_code, 0);
  const std::string csv = read_file(path("rows.csv"));
  EXPECT_TRUE(csv.starts_with("method,status,iteration_time_s,")) << csv;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  EXPECT_EQ(run(on_small({"compare"}, {"--csv", "-", "--methods", "manual"})).out.substr(0, 7),
            "method,");
}

TEST_F(CompareTest, AChartSaysInTextWhatItShows) {
  set_memory("30 MB");
  const Outcome outcome = run(on_small({"compare"}, {"--svg", path("chart.svg"), "--json"}));
  const Json comparison = Json::parse(outcome.out);
  const std::string svg = read_file(path("chart.svg"));
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << svg;
  for (const char* part :
       {"<title id=\"title\">", "<desc id=\"desc\">", "role=\"img\"", "</svg>"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  const auto count = [&svg](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  std::size_t without_plan = 0;
  for (const Json& row : comparison["rows"]) {
    EXPECT_NE(svg.find(">" + row["method"].get<std::string>() + "</text>"), std::string::npos);
    without_plan += row["iteration_time_s"].is_null() ? std::size_t{1} : 0;
  }
  EXPECT_EQ(count(">X</text>"), without_plan);
  EXPECT_EQ(count(" samples/s"), comparison["rows"].size() - without_plan);
}

TEST_F(CompareTest, RanksComeToTheSameRows) {
  Json alone = without_times(compared());
  const Outcome outcome = run_on(2, on_small({"compare"}, {"--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(without_times(Json::parse(outcome.out)), alone);
}

TEST_F(CompareTest, WrongUsageIsOneLine) {
  const auto refused = [&](const Words& more, const std::string& says) {
    const Outcome outcome = run(on_small({"compare"}, more));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  };
  refused({"--methods", "alpha"}, "did you mean \"alpa\"?");
  refused({"--mcmc-steps", "0"}, "--mcmc-steps: 0");
  refused({"--seed", "-1"}, "--seed: -1");
  refused({"--json", "--csv", "-"}, "--json and --csv cannot share stdout");
  refused({"--csv", "-", "--svg", "-"}, "--csv and --svg cannot share stdout");
  refused({"--checkpoint", "f"}, "unknown option \"--checkpoint\" of compare");
}

TEST_F(CompareTest, OutputsTakeTheirOwnPlaces) {
  std::filesystem::create_symlink("graph.json", path("link.json"));
  std::filesystem::create_symlink("later.csv", path("later-too.csv"));
  const std::string graph = read_file(path("graph.json"));
  const auto refused = [&](const Words& more, const std::string& says) {
    const Outcome outcome = run(on_small({"compare"}, more));
    EXPECT_EQ(outcome.exit_code, 2) << says;
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  };
  refused({"--csv", path("x"), "--svg", path("x")}, "--svg: ");
  refused({"--csv", path("x"), "--svg", path("./x")}, "is the file of --csv");
  refused({"--csv", path("later.csv"), "--svg", path("later-too.csv")}, "is the file of --csv");
  refused({"--csv", path("graph.json")}, "is the file of --graph");
  refused({"--svg", path("link.json")}, "is the file of --graph");
  refused({"--svg", path("cluster.json")}, "is the file of --cluster");
  EXPECT_EQ(read_file(path("graph.json")), graph);
  EXPECT_FALSE(std::filesystem::exists(path("x")));
  const Words nowhere{"--methods", "manual", "--csv", "/dev/null", "--svg", "/dev/null"};
  EXPECT_EQ(run(on_small({"compare"}, nowhere)).exit_code, 0);
}

TEST_F(CompareTest, AFileThatCannotBeWrittenIsSaidAtOnce) {
  const Outcome outcome = run(on_small({"compare"}, {"--svg", path("nowhere/chart.svg")}));
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_TRUE(is_one_line(outcome.err));
}

}  // namespace
}  // namespace nestplan::test

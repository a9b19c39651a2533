#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInputs = NESTPLAN_SOURCE_DIR "/inputs";

class BatchTest : public Workspace {
 protected:
  static Json job(const std::string& name, const Json& options = Json::object()) {
    return {
        {"name", name}, {"graph", "graph.json"}, {"cluster", "cluster.json"}, {"options", options}};
  }

  /// Six jobs on the workspace's graph, two of which cannot be planned and one that does not fit.
  static std::vector<Json> mixed_jobs() {
    Json absent = job("absent");
    absent["graph"] = "grahp.json";
    Json tiny = job("tiny");
    tiny["cluster"] = "tiny.json";
    return {job("a"),
            absent,
            job("b", {{"tp", 2}, {"recompute", {"full"}}}),
            job("no-such-tp", {{"tp", 3}}),
            tiny,
            job("c", {{"global-batch", 32}, {"objective", "paper"}})};
  }

  void write_batch(const std::vector<Json>& jobs) const {
    Json cluster = small_cluster();
    cluster["device"]["memory"] = "100 kB";
    write_json("tiny.json", cluster);
    write_json(
        "batch.json",
        {{"format", "nestplan.batch/1"}, {"options", {{"global-batch", 16}}}, {"jobs", jobs}});
  }

  Words batch(const std::string& directory, const Words& more = {}) const {
    Words words{"batch", path("batch.json"), "-o", path(directory)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Json plan_of(const std::string& directory, const std::string& name) const {
    Json plan = Json::parse(read_file(directory_ / directory / (name + ".plan.json")));
    plan.erase("search");
    return plan;
  }

  fs::file_time_type written(const std::string& file) const {
    return fs::last_write_time(directory_ / file);
  }
};

/// Results by name, without what may differ between runs.
std::map<std::string, Json> rows_of(const Outcome& outcome) {
  std::map<std::string, Json> rows;
  const Json summary = Json::parse(outcome.out);
  for (Json row : summary.at("jobs")) {
    const std::string name = row.at("name").get<std::string>();
    row.erase("search_s");
    row.erase("plan");
    rows[name] = row;
  }
  return rows;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t i = text.find(what); i != std::string::npos; i = text.find(what, i + 1)) ++found;
  return found;
}

TEST_F(BatchTest, AFailingJobDoesNotStopTheOthers) {
  write_batch(mixed_jobs());
  const Outcome outcome = run(batch("out", {"--json"}));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  const auto rows = rows_of(outcome);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(rows.at(name)["status"], "optimal") << name;
  EXPECT_EQ(rows.at("tiny")["status"], "infeasible");
  EXPECT_EQ(rows.at("tiny")["exit_code"], 3);
  for (const char* name : {"absent", "no-such-tp"}) {
    EXPECT_EQ(rows.at(name)["status"], "failed") << name;
    EXPECT_EQ(rows.at(name)["exit_code"], 2) << name;
    EXPECT_FALSE(fs::exists(directory_ / "out" / (std::string(name) + ".plan.json")));
  }
  EXPECT_NE(rows.at("absent")["message"].get<std::string>().find("graph.json\"?"),
            std::string::npos);
  EXPECT_EQ(count(outcome.err, "nestplan: ["), 6U) << outcome.err;
}

TEST_F(BatchTest, PlansAreThoseOfPlan) {
  write_batch(mixed_jobs());
  run(batch("out", {"-q"}));
  Json alone =
      Json::parse(run(on_small({"plan"}, {"--tp", "2", "--recompute", "full", "--json"})).out);
  alone.erase("search");
  EXPECT_EQ(plan_of("out", "b"), alone);
}

TEST_F(BatchTest, AnyNumberOfRanksGivesTheSame) {
  write_batch(mixed_jobs());
  const Outcome serial = run(batch("serial", {"--json"}));
  for (const auto& [ranks, width] : {std::pair{1, "1"}, {2, "1"}, {2, "2"}, {3, "1"}, {3, "2"}}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks, crews of " + width);
    fs::remove_all(directory_ / "out");
    const Outcome outcome = run_on(ranks, batch("out", {"--json", "--ranks-per-job", width}));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(rows_of(outcome), rows_of(serial));
    EXPECT_EQ(count(outcome.err, "nestplan: ["), 6U) << outcome.err;
    for (const char* name : {"a", "b", "c", "tiny"}) {
      EXPECT_EQ(plan_of("out", name), plan_of("serial", name)) << name;
    }
  }
}

TEST_F(BatchTest, MoreRanksThanJobsWorkTogether) {
  write_batch({job("a")});
  const Outcome outcome = run_on(3, batch("out", {"--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(read_file(directory_ / "out/a.plan.json"))["search"]["ranks"], 3);
}

/// Thirty layers side by side: far too many downsets.
Json wide_graph() {
  Json graph = small_graph();
  const Json layer = graph["layers"][0];
  graph["edges"] = Json::array();
  graph["layers"] = Json::array();
  for (int i = 0; i < 30; ++i) {
    graph["layers"].push_back(layer);
    graph["layers"].back()["id"] = "l" + std::to_string(i);
  }
  return graph;
}

TEST_F(BatchTest, AJobThatNeedsTooMuchMemoryDoesNotStopTheOthers) {
  write_json("wide.json", wide_graph());
  Json wide = job("wide");
  wide["graph"] = "wide.json";
  write_batch({wide, job("a")});
  for (const char* width : {"1", "2"}) {
    const Outcome outcome = run_on(2, batch("out", {"--json", "--ranks-per-job", width}));
    EXPECT_EQ(outcome.exit_code, 6) << outcome.err;
    EXPECT_EQ(rows_of(outcome).at("wide")["exit_code"], 6);
    EXPECT_EQ(rows_of(outcome).at("a")["status"], "optimal");
  }
}

TEST_F(BatchTest, FinishedJobsAreNotRepeatedAndChangedOnesAre) {
  write_batch({job("a"), job("b"), job("c")});
  EXPECT_EQ(run(batch("out")).exit_code, 0);
  const auto before = written("out/a.plan.json");
  fs::remove(directory_ / "out/c.plan.json");
  write_batch({job("a"), job("b", {{"tp", 2}}), job("c")});
  const Outcome outcome = run_on(2, batch("out", {"--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(rows_of(outcome).at("a")["reused"], true);
  EXPECT_EQ(rows_of(outcome).at("b")["reused"], false);
  EXPECT_EQ(rows_of(outcome).at("c")["reused"], false);
  EXPECT_EQ(written("out/a.plan.json"), before);
  EXPECT_EQ(plan_of("out", "b")["stages"][0]["tp"], 2);
  EXPECT_NE(outcome.err.find("a: optimal"), std::string::npos) << outcome.err;
  EXPECT_EQ(count(outcome.err, "not repeated"), 1U) << outcome.err;
}

TEST_F(BatchTest, AJobWhoseFilesChangedIsRepeated) {
  write_batch({job("a")});
  run(batch("out", {"-q"}));
  Json graph = small_graph();
  graph["layers"][0]["costs"]["tp1"]["forward_s"] = 2e-3;
  write_json("graph.json", graph);
  EXPECT_EQ(rows_of(run(batch("out", {"--json"}))).at("a")["reused"], false);
  EXPECT_EQ(rows_of(run(batch("out", {"--json"}))).at("a")["reused"], true);
}

TEST_F(BatchTest, FailedJobsAreTriedAgainAndInfeasibleOnesAreNot) {
  write_batch(mixed_jobs());
  run(batch("out", {"-q"}));
  write_json("grahp.json", small_graph());
  const auto rows = rows_of(run(batch("out", {"--json"})));
  EXPECT_EQ(rows.at("absent")["status"], "optimal");
  EXPECT_EQ(rows.at("tiny")["reused"], true);
  EXPECT_EQ(rows.at("tiny")["exit_code"], 3);
}

TEST_F(BatchTest, TasksOfAnArrayShareTheDirectory) {
  write_batch({job("a"), job("b"), job("c"), job("d"), job("e")});
  std::size_t rows = 0;
  for (const char* task : {"1/3", "2/3", "3/3"}) {
    const Outcome outcome = run(batch("out", {"--task", task, "--json"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const auto& [name, row] : rows_of(outcome)) EXPECT_EQ(row["reused"], false) << name;
    rows += rows_of(outcome).size();
  }
  EXPECT_EQ(rows, 5U);
  for (const auto& [name, row] : rows_of(run(batch("out", {"--json"})))) {
    EXPECT_EQ(row["reused"], true) << name;
  }
}

TEST_F(BatchTest, SummaryIsTextJsonAndCsv) {
  write_batch({job("a"), job("b")});
  const Outcome text = run(batch("out", {"--csv", path("summary.csv"), "-q"}));
  EXPECT_EQ(text.err, "");
  EXPECT_NE(text.out.find("2 jobs: 2 optimal\n"), std::string::npos) << text.out;
  const std::string csv = read_file(directory_ / "summary.csv");
  EXPECT_EQ(count(csv, "\r\n"), 3U) << csv;
  EXPECT_TRUE(csv.starts_with("name,status,")) << csv;
  const Outcome piped = run(batch("out", {"--csv", "-", "-q"}));
  EXPECT_EQ(count(piped.out, "\r\n"), 3U) << piped.out;
  const Outcome both = run(batch("out", {"--csv", "-", "--json"}));
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_TRUE(is_one_line(both.err));
}

TEST_F(BatchTest, PlansRecordTheirSearches) {
  write_batch({job("a", {{"tp", 2}, {"recompute", {"full"}}, {"per-stage-strategies", true}})});
  ASSERT_EQ(run(batch("out", {"-q"})).exit_code, 0);
  const Json plan = Json::parse(read_file(directory_ / "out/a.plan.json"));
  const Json expected{
      {"global-batch", "16"}, {"tp", "2"}, {"recompute", "full"}, {"per-stage-strategies", true}};
  EXPECT_EQ(plan["search"]["options"], expected);
  // as options of a job they make the same plan
  write_batch({job("b", plan["search"]["options"])});
  ASSERT_EQ(run(batch("out", {"-q"})).exit_code, 0);
  EXPECT_EQ(plan_of("out", "b"), plan_of("out", "a"));
}

TEST_F(BatchTest, OutputsTakeTheirOwnPlaces) {
  write_batch({job("a")});
  const std::string jobs = read_file(path("batch.json"));
  const auto refused = [&](const Words& words, const std::string& says) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2) << says;
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  };
  refused(batch("out", {"--csv", path("out")}), "is the file of -o");
  refused(batch("out", {"--csv", path("out/../batch.json")}), "is the file of the batch");
  refused(batch("out", {"--csv", path("graph.json")}), "is the file of --graph of job a");
  refused(batch("out", {"--csv", path("out/a.plan.json")}), "is the file of the plan of job a");
  EXPECT_EQ(read_file(path("batch.json")), jobs);
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(BatchTest, ABadFileIsRefusedBeforeAnythingIsDone) {
  const auto error_of = [&](const std::vector<Json>& jobs, int ranks) {
    write_batch(jobs);
    const Outcome outcome = ranks == 0 ? run(batch("out")) : run_on(ranks, batch("out"));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(count(outcome.err, "nestplan: "), 1U) << outcome.err;
    EXPECT_FALSE(fs::exists(directory_ / "out"));
    return outcome.err;
  };
  for (const int ranks : {0, 2}) {
    EXPECT_NE(error_of({job("a"), job("a")}, ranks).find("jobs[1].name: \"a\""), std::string::npos);
    EXPECT_NE(error_of({job("../a")}, ranks).find("cannot name a file"), std::string::npos);
    EXPECT_NE(error_of({job("a", {{"zreo", 1}})}, ranks).find("did you mean \"zero\""),
              std::string::npos);
  }
}

TEST_F(BatchTest, ADirectoryThatCannotBeMadeIsKnownAtOnce) {
  write_batch({job("a")});
  write("taken", "by a file");
  const Outcome outcome = run(batch("taken"));
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_TRUE(is_one_line(outcome.err));
}

class StoppedBatchTest : public BatchTest {
 protected:
  /// A search that takes minutes.
  static Json long_job(const std::string& name) {
    return {{"name", name},
            {"model", std::string(kInputs) + "/models/llama-3.1-405b"},
            {"cluster", std::string(kInputs) + "/clusters/h100-16384.json"},
            {"options",
             {{"global-batch", 2047},
              {"seq", 8192},
              {"micro-batch", "1,2,3,4,5,6,7,8"},
              {"per-stage-strategies", true},
              {"allow-uneven-batch", true}}}};
  }

  /// Lets the process run until the small job is done, and the long one is at work.
  void wait_until_at_work() const {
    for (int i = 0; i < 300 && !fs::exists(directory_ / "out/a.done.json"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    std::this_thread::sleep_for(std::chrono::seconds(3));
  }

  void expect_stopped(const Outcome& outcome) const {
    EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
    const auto rows = rows_of(outcome);
    EXPECT_EQ(rows.at("long")["status"], "feasible");
    EXPECT_EQ(rows.at("a")["status"], "optimal");
    EXPECT_EQ(plan_of("out", "long")["status"], "feasible");
    EXPECT_FALSE(fs::exists(directory_ / "out/long.done.json"));
  }
};

TEST_F(StoppedBatchTest, ASignalEndsItWithTheBestSoFar) {
  write_batch({long_job("long"), job("a")});
  // mpirun hands SIGUSR1 on to the ranks
  Process process(batch("out", {"--json", "--ranks-per-job", "1"}), directory_, "", 2);
  wait_until_at_work();
  process.send(SIGUSR1);
  expect_stopped(process.wait());
}

TEST_F(StoppedBatchTest, WhatWasNotBegunIsWaiting) {
  write_batch({long_job("long"), job("a")});
  Process process(batch("out", {"--json"}), directory_);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  process.send(SIGTERM);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  EXPECT_EQ(rows_of(outcome).at("long")["status"], "feasible");
  EXPECT_EQ(rows_of(outcome).at("a")["status"], "waiting");
}

TEST_F(StoppedBatchTest, AJobsOwnTimeLimitIsAnAnswer) {
  Json limited = long_job("limited");
  limited["options"]["time-limit"] = 2;
  write_batch({limited});
  const Outcome outcome = run(batch("out", {"--json"}));
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  EXPECT_EQ(rows_of(outcome).at("limited")["status"], "feasible");
  EXPECT_EQ(rows_of(run(batch("out", {"--json"}))).at("limited")["reused"], true);
}

TEST_F(BatchTest, TheShippedBatchRuns) {
  const Outcome outcome =
      run_on(2, {"batch", std::string(kInputs) + "/batches/models-x-clusters.json", "-o",
                 path("out"), "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const auto& [name, row] : rows_of(outcome)) EXPECT_EQ(row["status"], "optimal") << name;
}

}  // namespace
}  // namespace nestplan::test

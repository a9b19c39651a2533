#include "cli/batch_jobs.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "nestplan/util/errors.hpp"

namespace nestplan::cli {
namespace {

std::vector<Job> jobs_called(int count) {
  std::vector<Job> jobs;
  for (int i = 0; i < count; ++i) jobs.push_back({fmt::format("j{}", i), {}});
  return jobs;
}

std::vector<std::string> names_of(const std::vector<Job>& jobs) {
  std::vector<std::string> names;
  for (const Job& job : jobs) names.push_back(job.name);
  return names;
}

TEST(BatchTasks, EveryJobIsInExactlyOne) {
  for (int jobs = 0; jobs <= 13; ++jobs) {
    for (int tasks = 1; tasks <= 15; ++tasks) {
      std::map<std::string, int> seen;
      std::size_t most = 0;
      for (int task = 1; task <= tasks; ++task) {
        Flags flags;
        flags.task = fmt::format("{}/{}", task, tasks);
        const auto mine = names_of(selected_jobs(jobs_called(jobs), flags));
        most = std::max(most, mine.size());
        for (const std::string& name : mine) ++seen[name];
      }
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(jobs)) << tasks;
      for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << name << " of " << tasks;
      EXPECT_EQ(most, static_cast<std::size_t>((jobs + tasks - 1) / tasks));
    }
  }
}

TEST(BatchTasks, ShareWhatOnlyLeaves) {
  Flags flags;
  flags.only = {"j5", "j1", "j3"};
  EXPECT_EQ(names_of(selected_jobs(jobs_called(8), flags)),
            (std::vector<std::string>{"j1", "j3", "j5"}));
  flags.task = "2/2";
  EXPECT_EQ(names_of(selected_jobs(jobs_called(8), flags)), std::vector<std::string>{"j3"});
}

TEST(BatchTasks, WhatIsNoShareIsRefused) {
  for (const char* task : {"0/3", "4/3", "1", "1/", "/3", "1/0", "1/x", "-1/3", "1/3/3", "a/b"}) {
    Flags flags;
    flags.task = task;
    EXPECT_THROW(selected_jobs(jobs_called(3), flags), InvalidConfig) << task;
  }
}

TEST(BatchTasks, UnknownNamesAreRefusedWithTheNearest) {
  Flags flags;
  flags.only = {"jj1"};
  try {
    selected_jobs(jobs_called(3), flags);
    FAIL() << "accepted";
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean \"j1\""), std::string::npos)
        << error.what();
  }
}

TEST(BatchJobs, HaveTheFlagsThatPlanWouldHave) {
  const auto jobs = read_jobs(R"({"format": "nestplan.batch/1", "options": {"tp": [4, 2]},
      "jobs": [{"name": "a", "graph": "g.json", "cluster": "c.json", "options":
                 {"global-batch": 64, "zero": "1", "time-limit": 2.5, "allow-uneven-batch": true}},
               {"name": "b", "model": "m", "cluster": "c.json"}]})",
                              "d/b.json");
  const Flags& a = jobs.at(0).flags;
  EXPECT_EQ(a.graph, "d/g.json");
  EXPECT_EQ(a.cluster, "d/c.json");
  EXPECT_EQ(a.global_batch, 64);
  EXPECT_EQ(a.tp, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(a.zero, std::vector<std::int64_t>{1});
  EXPECT_EQ(a.time_limit, 2.5);
  EXPECT_TRUE(a.allow_uneven_batch);
  EXPECT_EQ(a.state_bytes, (std::vector<double>{2, 4, 12}));
  EXPECT_EQ(jobs.at(1).flags.model, "d/m");
}

TEST(BatchJobs, ValuesThatPlanWouldRefuseAreRefusedAtOnce) {
  try {
    read_jobs(R"({"format": "nestplan.batch/1", "jobs": [{"name": "a", "model": "m",
              "cluster": "c", "options": {"zero": [5]}}]})",
              "b.json");
    FAIL() << "accepted";
  } catch (const InvalidInput& error) {
    EXPECT_EQ(std::string(error.what()), "b.json: job a: --zero: 5 is out of range (0 to 3)");
  }
}

TEST(BatchJobs, TheSchemaHasTheOptionsOfTheReader) {
  std::ifstream file(NESTPLAN_SOURCE_DIR "/inputs/schemas/batch.schema.json");
  const auto schema = nlohmann::json::parse(file);
  std::set<std::string> described, known;
  for (const auto& [key, value] : schema["$defs"]["options"]["properties"].items()) {
    described.insert(key);
  }
  for (const io::BatchOption& option : batch_options()) known.insert(option.name);
  EXPECT_EQ(described, known);
}

/// The batch that is shipped: every model on three clusters.
TEST(BatchJobs, TheShippedBatchHasEveryModel) {
  const std::string path = NESTPLAN_SOURCE_DIR "/inputs/batches/models-x-clusters.json";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::map<std::string, std::set<std::string>> clusters;
  for (const Job& job : read_jobs(text, path)) {
    EXPECT_TRUE(std::filesystem::exists(job.flags.cluster)) << job.flags.cluster;
    clusters[std::filesystem::path(job.flags.model).filename()].insert(job.flags.cluster);
  }
  const std::filesystem::directory_iterator models(NESTPLAN_SOURCE_DIR "/inputs/models");
  for (const auto& entry : models) {
    EXPECT_EQ(clusters[entry.path().filename()].size(), 3U) << entry.path();
  }
}

}  // namespace
}  // namespace nestplan::cli

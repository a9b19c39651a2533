#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

class ParetoTest : public Workspace {
 protected:
  Json front(const Words& more = {}, int exit_code = 0) const {
    Words flags{"--pareto", "--json", "-q"};
    flags.insert(flags.end(), more.begin(), more.end());
    const Outcome outcome = run(on_small({"plan"}, flags));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    return Json::parse(outcome.out);
  }

  void set_machine(std::int64_t devices, std::int64_t memory) const {
    Json cluster = small_cluster();
    cluster["network"]["devices"] = devices;
    cluster["device"]["memory"] = std::to_string(memory) + " B";
    write_json("cluster.json", cluster);
  }
};

TEST_F(ParetoTest, EveryPointIsTheFastestPlanInItsMemoryOnItsDevices) {
  set_machine(8, 60'000'000);
  const Json answer = front({"--pareto-points", "1000"});
  EXPECT_EQ(answer["left_out"], 0);
  EXPECT_EQ(answer["complete"], true);
  ASSERT_EQ(answer["points"], answer["rows"].size());
  ASSERT_GT(answer["rows"].size(), 6U);
  const Json rows = answer["rows"];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    SCOPED_TRACE(row.dump());
    const auto devices = row["devices"].get<std::int64_t>();
    const auto bytes = row["memory_bytes"].get<std::int64_t>();
    set_machine(devices, bytes);
    const Json plan = Json::parse(run(on_small({"plan"}, {"--json", "-q"})).out);
    EXPECT_EQ(plan["iteration_time_s"], row["iteration_time_s"]);
    EXPECT_EQ(plan["strategy"], row["strategy"]);
    set_machine(devices, bytes - 1);
    const Outcome next = run(on_small({"plan"}, {"--json", "-q"}));
    if (next.exit_code == 0) {
      EXPECT_GT(Json::parse(next.out)["iteration_time_s"], row["iteration_time_s"]);
    } else {
      EXPECT_TRUE(i + 1 == rows.size() || rows[i + 1]["devices"] != row["devices"]);
    }
    for (const Json& other : rows) {
      EXPECT_FALSE(other != row && other["devices"] <= row["devices"] &&
                   other["memory_bytes"] <= row["memory_bytes"] &&
                   other["iteration_time_s"] <= row["iteration_time_s"])
          << other << " is as good in all";
    }
  }
}

TEST_F(ParetoTest, HalvesTheDevicesUntilNothingFits) {
  set_machine(8, 30'000'000);
  const Json answer = front();
  ASSERT_FALSE(answer["too_few"].is_null());
  const auto few = answer["too_few"]["devices"].get<std::int64_t>();
  EXPECT_TRUE(few == 4 || few == 2 || few == 1);
  EXPECT_EQ(answer["rows"].back()["devices"], 2 * few);
  set_machine(few, 30'000'000);
  const Json plan = Json::parse(run(on_small({"plan"}, {"--json", "-q"})).out);
  EXPECT_EQ(answer["too_few"]["reason"], plan["reason"]);
}

TEST_F(ParetoTest, DeviceCountsAreThoseGiven) {
  const Json rows = front({"--device-counts", "3,8"})["rows"];
  for (const Json& row : rows) EXPECT_TRUE(row["devices"] == 3 || row["devices"] == 8) << row;
  EXPECT_EQ(rows.front()["devices"], 8);
  EXPECT_EQ(rows.back()["devices"], 3);
}

TEST_F(ParetoTest, WhatIsLeftOutIsCounted) {
  const Json all = front({"--pareto-points", "1000"});
  const Json some = front({"--pareto-points", "2"});
  EXPECT_EQ(some["points"], all["points"]);
  EXPECT_EQ(some["left_out"].get<std::size_t>() + some["rows"].size(), all["rows"].size());
  EXPECT_GT(some["left_out"], 0) << "the case is meant to have more";
  for (const Json& row : some["rows"]) {
    EXPECT_NE(std::find(all["rows"].begin(), all["rows"].end(), row), all["rows"].end());
  }
  EXPECT_EQ(some["rows"].front(), all["rows"].front());
  const Outcome text = run(on_small({"plan"}, {"--pareto", "--pareto-points", "2", "-q"}));
  EXPECT_NE(text.out.find("\nleft out"), std::string::npos) << text.out;
}

TEST_F(ParetoTest, CsvHasTheRowsOfJson) {
  const Json rows = front()["rows"];
  const Outcome outcome = run(on_small({"plan"}, {"--pareto", "--csv", path("front.csv"), "-q"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("front of iteration time"), std::string::npos);
  const std::string csv = read_file(path("front.csv"));
  EXPECT_EQ(run(on_small({"plan"}, {"--pareto", "--csv", "-", "-q"})).out, csv);
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("devices,devices_used,iteration_time_s,memory_bytes,")) << line;
  for (const Json& row : rows) {
    std::getline(lines, line);
    EXPECT_TRUE(line.starts_with(row["devices"].dump() + ',' + row["devices_used"].dump() + ',' +
                                 row["iteration_time_s"].dump() + ','))
        << line;
  }
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(ParetoTest, NothingThatFits) {
  set_machine(8, 1'000'000);
  const Json answer = front({}, 3);
  EXPECT_TRUE(answer["rows"].empty());
  EXPECT_EQ(answer["too_few"]["devices"], 8);
}

}  // namespace
}  // namespace nestplan::test

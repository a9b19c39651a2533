#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

namespace fs = std::filesystem;

/// Reference data beside the checkout.
const fs::path kShared = fs::path(NESTPLAN_SOURCE_DIR).parent_path() / "shared";

std::string joined(const Json& list) {
  std::string text;
  for (const Json& item : list) {
    text += (text.empty() ? "" : ",") + (item.is_string() ? item.get<std::string>() : item.dump());
  }
  return text;
}

/// The options of an instance as flags; one that is not known is a failure.
Words flags_of(const Json& options) {
  static const std::map<std::string, std::string> kLists{
      {"recompute", "--recompute"}, {"zero", "--zero"}, {"state", "--state-bytes"}};
  Words flags;
  for (const auto& [key, value] : options.items()) {
    if (kLists.contains(key)) {
      flags.insert(flags.end(), {kLists.at(key), joined(value)});
    } else if (key == "schedule") {
      flags.insert(flags.end(), {"--schedule", value.get<std::string>()});
    } else if (key == "uneven") {
      if (value.get<bool>()) flags.push_back("--allow-uneven-batch");
    } else {
      ADD_FAILURE() << "option " << key;
    }
  }
  return flags;
}

/// "paper" or "1f1b", then "_per_stage" where stages may differ.
Words flags_of(const std::string& answer) {
  Words flags{"--objective", answer.substr(0, answer.find('_'))};
  if (answer.ends_with("_per_stage")) flags.push_back("--per-stage-strategies");
  return flags;
}

/// The oracle's plan as a person would write it down.
Json plan_file(const Json& plan) {
  Json stages = Json::array();
  for (const Json& stage : plan.at("stages")) {
    stages.push_back({{"layers", stage.at(0)},
                      {"strategy", stage.at(1)},
                      {"position", stage.at(2)},
                      {"recompute", stage.at(3)},
                      {"zero", stage.at(4)}});
  }
  return {{"format", "nestplan.plan/1"},
          {"strategy", {{"dp", plan.at("dp")}, {"dp_inner", plan.at("dp_inner")}}},
          {"stages", stages}};
}

/// Tiny instances with optima that another program enumerated.
class OracleCommandTest : public Workspace, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const fs::path file = kShared / "oracle" / GetParam();
    if (!fs::exists(file)) GTEST_SKIP() << "no reference data at " << file;
    Workspace::SetUp();
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) instances_.push_back(Json::parse(line));
    ASSERT_FALSE(instances_.empty());
  }

  void TearDown() override {
    if (!directory_.empty()) Workspace::TearDown();
  }

  /// `command` on the files and with the options of an instance.
  Words line(Words command, const Json& instance, const std::string& answer) const {
    write_json("graph.json", instance.at("graph"));
    write_json("cluster.json", instance.at("cluster"));
    const Words inputs{"--json",
                       "--graph",
                       path("graph.json"),
                       "--cluster",
                       path("cluster.json"),
                       "--global-batch",
                       instance.at("batch").dump()};
    for (const Words& more :
         {inputs, flags_of(instance.value("options", Json::object())), flags_of(answer)}) {
      command.insert(command.end(), more.begin(), more.end());
    }
    return command;
  }

  static void expect_time(const Outcome& outcome, const Json& expected) {
    if (expected.is_null()) {
      EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
      EXPECT_EQ(Json::parse(outcome.out).at("status"), "infeasible");
      return;
    }
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    const double seconds = expected;
    EXPECT_NEAR(Json::parse(outcome.out).at("iteration_time_s"), seconds, 1e-9 * seconds);
  }

  std::vector<Json> instances_;
};

TEST_P(OracleCommandTest, PlanFindsTheOptimum) {
  for (const Json& instance : instances_) {
    for (const auto& [answer, seconds] : instance.at("expected").items()) {
      SCOPED_TRACE(instance.at("graph").at("name").get<std::string>() + " " + answer);
      expect_time(run(line({"plan"}, instance, answer)), seconds);
    }
  }
}

TEST_P(OracleCommandTest, EvaluateAgreesOnItsPlan) {
  for (const Json& instance : instances_) {
    for (const auto& [answer, seconds] : instance.at("expected").items()) {
      if (seconds.is_null()) continue;
      SCOPED_TRACE(instance.at("graph").at("name").get<std::string>() + " " + answer);
      const std::string plan = write_json("plan.json", plan_file(instance.at("plan").at(answer)));
      expect_time(run(line({"evaluate", plan}, instance, answer)), seconds);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, OracleCommandTest, testing::Values("instances.jsonl", "wide.jsonl"),
                         [](const auto& test) {
                           const std::string file = test.param;
                           return file.substr(0, file.find('.'));
                         });

/// Plans that another solver found for published instances.
TEST(ReferencePlans, AreEvaluatedAsTheyStand) {
  const fs::path folder = kShared / "nest";
  if (!fs::exists(folder)) GTEST_SKIP() << "no reference data at " << folder;
  std::map<std::string, Json> instances;
  for (const Json& entry : Json::parse(read_file(folder / "index.json"))) {
    instances[entry.at("id")] = entry;
  }
  std::string name = (fs::temp_directory_path() / "nestplan-reference-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const fs::path directory = name;
  int evaluated = 0;
  for (const Json& entry : Json::parse(read_file(folder / "reference.json"))) {
    if (!entry.contains("plan")) continue;
    SCOPED_TRACE(entry.at("id").get<std::string>());
    const Json& instance = instances.at(entry.at("id"));
    const Json& plan = entry.at("plan");
    std::ofstream(directory / "plan.json") << plan.dump();
    const Outcome outcome =
        Process({"evaluate", directory / "plan.json", "--json", "--allow-uneven-batch", "--graph",
                 folder / instance.at("graph").get<std::string>(), "--cluster",
                 folder / instance.at("cluster").get<std::string>(), "--global-batch",
                 instance.at("global_batch").dump(), "--state-bytes",
                 joined(instance.at("state_bytes"))},
                directory)
            .wait();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    const Json result = Json::parse(outcome.out);
    EXPECT_GT(result.at("iteration_time_s").get<double>(), 0);
    EXPECT_EQ(result.at("strategy").at("dp"), plan.at("strategy").at("dp"));
    ASSERT_EQ(result.at("stages").size(), plan.at("stages").size());
    for (std::size_t s = 0; s < plan.at("stages").size(); ++s) {
      EXPECT_EQ(result.at("stages")[s].at("layers"), plan.at("stages")[s].at("layers"));
      EXPECT_EQ(result.at("stages")[s].at("strategy"), plan.at("stages")[s].at("strategy"));
    }
    ++evaluated;
  }
  EXPECT_GT(evaluated, 0);
  fs::remove_all(directory);
}

}  // namespace
}  // namespace nestplan::test

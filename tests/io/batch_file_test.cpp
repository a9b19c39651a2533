#include "nestplan/io/batch_file.hpp"

#include <gtest/gtest.h>

#include <set>

#include "io/samples.hpp"
#include "nestplan/util/errors.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::Json;
using Type = BatchOption::Type;
using Values = std::vector<std::string>;

const std::vector<BatchOption> kKnown{
    {"global-batch", Type::kScalar}, {"time-limit", Type::kScalar},
    {"objective", Type::kScalar},    {"tp", Type::kList},
    {"state-bytes", Type::kList},    {"per-stage-strategies", Type::kSwitch}};

Json job(const std::string& name) {
  return {{"name", name}, {"model", "m"}, {"cluster", "c.json"}};
}

Json batch(const std::vector<Json>& jobs) {
  return {{"format", "nestplan.batch/1"}, {"jobs", jobs}};
}

std::vector<BatchJob> parse(const Json& document, const std::string& file = "dir/b.json") {
  return parse_batch(document.dump(), file, kKnown);
}

TEST(BatchFile, ValuesAreThoseOfTheCommandLine) {
  Json one = job("a");
  one["options"] = {{"global-batch", 1024},    {"time-limit", 2.5},
                    {"objective", "paper"},    {"tp", {1, "2,4"}},
                    {"state-bytes", "2,4,12"}, {"per-stage-strategies", true}};
  const auto options = parse(batch({one})).at(0).options;
  EXPECT_EQ(options.at("global-batch"), Values{"1024"});
  EXPECT_EQ(options.at("time-limit"), Values{"2.5"});
  EXPECT_EQ(options.at("objective"), Values{"paper"});
  EXPECT_EQ(options.at("tp"), (Values{"1", "2,4"}));
  EXPECT_EQ(options.at("state-bytes"), Values{"2,4,12"});
  EXPECT_EQ(options.at("per-stage-strategies"), Values{"true"});
}

TEST(BatchFile, WholeNumbersMayHaveAPoint) {
  Json one = job("a");
  one["options"] = {{"global-batch", 64.0}};
  EXPECT_EQ(parse(batch({one})).at(0).options.at("global-batch"), Values{"64"});
}

TEST(BatchFile, TopLevelOptionsAreDefaults) {
  Json own = job("own");
  own["options"] = {{"tp", 8}};
  Json document = batch({job("plain"), own});
  document["options"] = {{"tp", 2}, {"global-batch", 16}};
  const auto jobs = parse(document);
  EXPECT_EQ(jobs.at(0).options.at("tp"), Values{"2"});
  EXPECT_EQ(jobs.at(1).options.at("tp"), Values{"8"});
  EXPECT_EQ(jobs.at(1).options.at("global-batch"), Values{"16"});
}

TEST(BatchFile, PathsAreRelativeToTheFile) {
  Json one = job("a");
  one["model"] = "../models/m";
  one["cluster"] = "/c.json";
  EXPECT_EQ(parse(batch({one}), "x/y/b.json").at(0).model, "x/models/m");
  EXPECT_EQ(parse(batch({one}), "x/y/b.json").at(0).cluster, "/c.json");
  EXPECT_EQ(parse(batch({one}), "b.json").at(0).model, "../models/m");
  EXPECT_EQ(parse(batch({one}), "/dev/stdin").at(0).model, "../models/m");
}

TEST(BatchFile, GraphInsteadOfModel) {
  Json one{{"name", "a"}, {"graph", "g.json"}, {"cluster", "c.json"}};
  const BatchJob read = parse(batch({one})).at(0);
  EXPECT_EQ(read.graph, "dir/g.json");
  EXPECT_EQ(read.model, "");
}

struct Wrong {
  const char* name;
  Json document;
  const char* says;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

Json changed(const char* key, const Json& value) {
  Json one = job("a");
  if (value.is_null()) {
    one.erase(key);
  } else {
    one[key] = value;
  }
  return batch({one});
}

class WrongBatchTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongBatchTest, NamesFileAndField) {
  try {
    parse(GetParam().document);
    FAIL() << "accepted";
  } catch (const InvalidInput& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("dir/b.json: ")) << message;
    EXPECT_NE(message.find(GetParam().says), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, WrongBatchTest,
    testing::Values(
        Wrong{"no_jobs", batch({}), "jobs: must have at least one job"},
        Wrong{"format", {{"format", "nestplan.batch/2"}, {"jobs", {}}}, "expected \"nestplan.batc"},
        Wrong{"key", changed("modle", "x"), "jobs[0]: unknown key \"modle\" (did you mean \"model"},
        Wrong{"option", changed("options", {{"golbal-batch", 1}}), "did you mean \"global-batch\""},
        Wrong{"both", changed("graph", "g"), "jobs[0]: has both"},
        Wrong{"neither", changed("model", nullptr), "jobs[0]: needs \"model\" or \"graph\""},
        Wrong{"no_cluster", changed("cluster", nullptr), "missing key \"cluster\""},
        Wrong{"no_name", changed("name", nullptr), "missing key \"name\""},
        Wrong{"twice", batch({job("a"), job("b"), job("a")}),
              "jobs[2].name: \"a\" is the name of "},
        Wrong{"slash", changed("name", "a/b"), "cannot name a file"},
        Wrong{"comma", changed("name", "a,b"), "cannot name a file"},
        Wrong{"hidden", changed("name", "..a"), "must not start with"},
        Wrong{"dash", changed("name", "-o"), "must not start with"},
        Wrong{"empty", changed("name", ""), "must not be empty"},
        Wrong{"long", changed("name", std::string(201, 'a')), "at most 200"},
        Wrong{"switch", changed("options", {{"per-stage-strategies", 1}}), "true or false"},
        Wrong{"list", changed("options", {{"global-batch", {1, 2}}}), "takes one value"},
        Wrong{"empty_list", changed("options", {{"tp", Json::array()}}), "must not be empty"},
        Wrong{"bool", changed("options", {{"tp", true}}), "must be a number or text"},
        Wrong{"object", changed("options", {{"tp", Json::object()}}), "must be a number or text"}),
    [](const auto& test) { return std::string(test.param.name); });

std::set<std::string> keys_of(const KeySet& keys) {
  std::set<std::string> all(keys.required.begin(), keys.required.end());
  all.insert(keys.optional.begin(), keys.optional.end());
  return all;
}

TEST(BatchFile, TheSchemaHasTheKeysOfTheReader) {
  const Json schema =
      Json::parse(test::content_of(NESTPLAN_SOURCE_DIR "/inputs/schemas/batch.schema.json"));
  const auto described = [](const Json& object) {
    std::set<std::string> keys;
    for (const auto& [key, value] : object.at("properties").items()) keys.insert(key);
    return keys;
  };
  EXPECT_EQ(described(schema), keys_of(batch_keys::kBatch));
  EXPECT_EQ(described(schema.at("$defs").at("job")), keys_of(batch_keys::kJob));
}

}  // namespace
}  // namespace nestplan::io

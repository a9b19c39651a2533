#include "cli/search_record.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cli/flags.hpp"
#include "support/memory_snapshot.hpp"
#include "support/random_problem.hpp"

namespace nestplan::cli {
namespace {

/// What `plan` understands of some flags.
Flags flags_of(const RawValues& raw) { return parse_flags(Command::kPlan, raw); }

Flags some_flags() {
  return flags_of({{"model", {"models/m"}},
                   {"cluster", {"c.json"}},
                   {"global-batch", {"512"}},
                   {"tp", {"2,4"}},
                   {"state-bytes", {"2,0.1,12"}},
                   {"recompute", {"full"}},
                   {"objective", {"paper"}},
                   {"per-stage-strategies", {"true"}},
                   {"output", {"plan.json"}},
                   {"time-limit", {"3"}}});
}

SearchRecord some_record() {
  const InputFiles files{{"models/m/config.json", "a\nmodel\n"}, {"c.json", "{\"a\": 1}"}};
  return record_of(some_flags(), files, testing::random_problem(1));
}

TEST(SearchRecord, IsReadAsItWasWritten) {
  const SearchRecord record = some_record();
  testing::MemorySnapshot snapshot;
  record.write(snapshot);
  const SearchRecord read = SearchRecord::read(snapshot);
  EXPECT_EQ(read.version, record.version);
  EXPECT_EQ(read.fingerprint, record.fingerprint);
  EXPECT_EQ(read.values, record.values);
  EXPECT_EQ(read.files.subject.text, "a\nmodel\n");
  EXPECT_TRUE(read.files.subject.path.ends_with("/models/m/config.json"));
  EXPECT_EQ(read.files.cluster.text, "{\"a\": 1}");
  EXPECT_EQ(difference(read, record), "");
}

TEST(SearchRecord, TellsTheFlagsThatDecideOnThePlan) {
  const Flags flags = some_record().flags();
  EXPECT_EQ(flags.global_batch, 512);
  EXPECT_EQ(flags.tp, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(flags.state_bytes, (std::vector<double>{2, 0.1, 12}));
  EXPECT_EQ(flags.recompute, std::vector<std::string>{"full"});
  EXPECT_EQ(flags.zero, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(flags.objective, "paper");
  EXPECT_TRUE(flags.per_stage_strategies);
  EXPECT_FALSE(flags.allow_uneven_batch);
  EXPECT_TRUE(flags.model.ends_with("/models/m/config.json"));
  EXPECT_EQ(flags.output, "");
  EXPECT_FALSE(flags.time_limit);
}

TEST(SearchRecord, NamesWhatDiffers) {
  const SearchRecord record = some_record();
  SearchRecord other = record;
  other.version = "0.0.1";
  EXPECT_NE(difference(other, record).find("written by nestplan 0.0.1"), std::string::npos);
  other = record;
  other.fingerprint = "another";
  EXPECT_EQ(difference(other, record), "this build of nestplan comes to other costs");
  other.values["tp"] = {"2"};
  EXPECT_EQ(difference(other, record), "--tp: was 2, is 2,4");
  other.files.cluster.text = "else";
  EXPECT_NE(difference(other, record).find("c.json has changed"), std::string::npos);
  other.files.subject = {"x", "y"};
  EXPECT_NE(difference(other, record).find("--model: was x, is "), std::string::npos);
}

TEST(SearchRecord, RefusesWhatAnotherProgramWrote) {
  testing::MemorySnapshot snapshot;
  EXPECT_THROW(SearchRecord::read(snapshot), InvalidInput);
  snapshot.text("run/version", "1");
  snapshot.text("run/problem", "2");
  snapshot.text("run/flags", "[]");
  EXPECT_THROW(SearchRecord::read(snapshot), InvalidInput);
}

}  // namespace
}  // namespace nestplan::cli

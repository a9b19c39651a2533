/// The same plan, to the byte, for every number of ranks and every way to arrange them. Usually a
/// small share, taken in rotation from all kinds of searches, arrangements and instances; with
/// NESTPLAN_SOAK=1 all of it, each search 20 times, as far as NESTPLAN_CAMPAIGN_HOURS (8) go.
/// NESTPLAN_CAMPAIGN_FIRST skips as many runs: where another night left off.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "campaigns/cases.hpp"
#include "campaigns/launch.hpp"
#include "support/seeds.hpp"

namespace nestplan::campaign {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 20;
constexpr std::size_t kRankCounts[] = {1, 2, 3, 4, 5, 7, 8};
constexpr std::chrono::seconds kReferenceLimit{100};
constexpr std::chrono::seconds kLimit{300};
constexpr int kEnoughFailures = 20;

double number_from(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stod(text);
}

bool soaking() {
  const char* soak = std::getenv("NESTPLAN_SOAK");
  return soak != nullptr && std::string(soak) != "0";
}

/// The runs of one rank count. Kinds take turns; each goes through its cases, every time round with
/// the next arrangement, until every case has met all of them, and that `kRepeats` times.
class Rotation {
 public:
  struct Turn {
    const Case* subject;
    const Layout* layout;
    std::size_t kind;
  };

  Rotation(const std::vector<Kind>& kinds, const std::vector<Layout>& layouts, std::size_t shift)
      : kinds_(kinds), layouts_(layouts), shift_(shift), taken_(kinds.size(), 0) {}

  /// The next run, or nothing after the last.
  std::optional<Turn> next() {
    for (std::size_t tried = 0; tried < kinds_.size(); ++tried) {
      const std::size_t kind = turn_++ % kinds_.size();
      const std::vector<Case>& cases = kinds_[kind].cases;
      if (taken_[kind] == cases.size() * layouts_.size() * kRepeats) continue;
      const std::size_t k = taken_[kind]++;
      const std::size_t subject = (k + shift_ * 7 + kind * 5) % cases.size();
      const std::size_t layout = (k + k / cases.size() + kind) % layouts_.size();
      return Turn{&cases[subject], &layouts_[layout], kind};
    }
    return std::nullopt;
  }

  std::size_t size() const {
    std::size_t runs = 0;
    for (const Kind& kind : kinds_) runs += kind.cases.size() * layouts_.size() * kRepeats;
    return runs;
  }

 private:
  const std::vector<Kind>& kinds_;
  const std::vector<Layout>& layouts_;
  std::size_t shift_;
  std::vector<std::size_t> taken_;
  std::size_t turn_ = 0;
};

/// What one process without a launcher says, which all others must say too.
struct Reference {
  Words flags;
  Answer answer;
};

/// The most memory that a stage of the plan takes; 0 without stages.
long long most_memory(const std::string& plan_without_search) {
  long long most = 0;
  const nlohmann::json plan = nlohmann::json::parse(plan_without_search + "}");
  for (const nlohmann::json& stage : plan.at("stages")) {
    most = std::max(most, stage.at("memory").at("total_bytes").get<long long>());
  }
  return most;
}

Reference refer(const Case& subject, const std::filesystem::path& directory) {
  Case asked = subject;
  Answer answer = plan(asked.all_flags(), {}, kReferenceLimit, directory);
  const long long most = subject.tight && answer.exit_code == 0 ? most_memory(answer.plan) : 0;
  if (most > 1) {
    asked.cluster = with_memory(subject.cluster, most - 1, directory);
    answer = plan(asked.all_flags(), {}, kReferenceLimit, directory);
  }
  return {asked.all_flags(), std::move(answer)};
}

std::string first_difference(const std::string& left, const std::string& right) {
  const auto at = std::mismatch(left.begin(), left.end(), right.begin(), right.end()).first;
  const auto byte = static_cast<std::size_t>(at - left.begin());
  const std::size_t begin = left.rfind('\n', byte == 0 ? 0 : byte - 1) + 1;
  return fmt::format("at byte {}:\n  {}\n  {}", byte, left.substr(begin, 100),
                     right.substr(std::min(begin, right.size()), 100));
}

/// Failures of the running test until now.
int failures_so_far() {
  return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
}

class Campaign : public ::testing::TestWithParam<std::size_t> {
 protected:
  /// The inputs of a failure stay, so that its command can be run again.
  void TearDown() override {
    if (HasFailure()) scratch_.keep();
  }

  const Reference& reference(const Case& subject) {
    auto known = references_.find(&subject);
    if (known == references_.end()) {
      known = references_.emplace(&subject, refer(subject, scratch_.path())).first;
    }
    return known->second;
  }

  /// Fails where the run does not answer as one process does.
  void check(const Case& subject, const Layout& layout) {
    const Reference& expected = reference(subject);
    ASSERT_TRUE(expected.answer.exit_code == 0 || expected.answer.exit_code == 3)
        << subject.name << ": exit code " << expected.answer.exit_code << "\n"
        << expected.answer.command << "\n"
        << expected.answer.said;
    ASSERT_FALSE(expected.answer.plan.empty()) << expected.answer.command;
    const Answer answer = plan(expected.flags, layout, kLimit, scratch_.path());
    EXPECT_EQ(answer.exit_code, expected.answer.exit_code)
        << subject.name << ", " << layout.name() << ":\n"
        << answer.command << "\n"
        << answer.said;
    EXPECT_TRUE(answer.plan == expected.answer.plan)
        << subject.name << ", " << layout.name() << ": another plan than\n"
        << expected.answer.command << "\nfrom\n"
        << answer.command << "\n"
        << first_difference(expected.answer.plan, answer.plan);
  }

  Scratch scratch_;

 private:
  std::map<const Case*, Reference> references_;
};

TEST_P(Campaign, EveryArrangementGivesThePlanOfOneProcess) {
  const std::size_t ranks = GetParam();
  const std::vector<Kind> all_kinds = kinds(scratch_.path(), soaking());
  const std::vector<Layout> all_layouts = layouts(static_cast<int>(ranks));
  Rotation rotation(all_kinds, all_layouts, ranks);
  const bool all = soaking();
  const std::size_t usual = testing::seeds(all_kinds.size());
  const auto skipped = static_cast<std::size_t>(number_from("NESTPLAN_CAMPAIGN_FIRST", 0));
  // arrangements of all rank counts together: the hours are shared out by them
  std::size_t everything = 0;
  for (const std::size_t count : kRankCounts) {
    everything += layouts(static_cast<int>(count)).size();
  }
  const double hours = number_from("NESTPLAN_CAMPAIGN_HOURS", 8) *
                       static_cast<double>(all_layouts.size()) / static_cast<double>(everything);
  const auto deadline = Clock::now() + std::chrono::duration<double>(hours * 3600);

  for (std::size_t i = 0; i < skipped; ++i) rotation.next();
  std::map<std::string, std::set<std::string>> touched;
  std::set<std::string> arranged;
  std::size_t runs = 0;
  int failures = 0;
  std::chrono::duration<double> slowest{0};
  std::string slowest_name;
  for (; all ? Clock::now() < deadline : runs < usual; ++runs) {
    const auto turn = rotation.next();
    if (!turn) break;
    touched[all_kinds[turn->kind].name].insert(turn->subject->name);
    arranged.insert(turn->layout->name());
    const auto begin = Clock::now();
    const int before = failures_so_far();
    check(*turn->subject, *turn->layout);
    failures += failures_so_far() > before ? 1 : 0;
    const std::chrono::duration<double> took = Clock::now() - begin;
    if (took > slowest) {
      slowest = took;
      slowest_name = turn->subject->name + " on " + turn->layout->name();
    }
    ASSERT_LT(failures, kEnoughFailures) << "that is enough";
  }

  fmt::print("{} ranks: runs {} to {} of {}, {} of {} arrangements\n", ranks, skipped,
             skipped + runs, rotation.size(), arranged.size(), all_layouts.size());
  fmt::print("  the slowest: {}, {:.1f} s\n", slowest_name, slowest.count());
  for (const Kind& kind : all_kinds) {
    fmt::print("  {}: {} of {} searches\n", kind.name, touched[kind.name].size(),
               kind.cases.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Campaign, ::testing::ValuesIn(kRankCounts),
                         ::testing::PrintToStringParamName());

TEST(CampaignData, IsBesideTheCheckout) {
  if (!std::filesystem::exists(shared_directory())) {
    GTEST_SKIP() << shared_directory().string()
                 << " is missing: the campaign runs the shipped inputs alone";
  }
  Scratch scratch;
  std::set<std::string> names;
  for (const Kind& kind : kinds(scratch.path(), false)) names.insert(kind.name);
  EXPECT_TRUE(names.contains("oracle"));
  EXPECT_TRUE(names.contains("nest"));
}

TEST(CampaignData, SearchIsCutOffAndNothingElse) {
  EXPECT_EQ(without_search("{\n  \"a\": 1,\n  \"search\": {\n    \"b\": {\n    }\n  }\n}\n"),
            "{\n  \"a\": 1");
  EXPECT_THROW(without_search("{\n  \"search\": {\n    \"b\": 1\n  },\n  \"a\": 1\n}\n"),
               std::runtime_error);
  EXPECT_THROW(without_search("{\n  \"a\": 1\n}\n"), std::runtime_error);
}

TEST(CampaignData, AllArrangementsAreThere) {
  EXPECT_EQ(layouts(1).size(), 2U);
  EXPECT_EQ(layouts(4).size(), 7U);
  EXPECT_EQ(layouts(8).size(), 11U);
}

}  // namespace
}  // namespace nestplan::campaign

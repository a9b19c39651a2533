#include <gtest/gtest.h>

#include <map>
#include <string>

#include "frameworks/plans.hpp"
#include "nestplan/frameworks/frameworks.hpp"
#include "nestplan/util/errors.hpp"
#include "support/seeds.hpp"

namespace nestplan::testing {
namespace {

using frameworks::Recipe;

constexpr std::uint64_t kCases = 4000;

class EveryFormat : public ::testing::TestWithParam<std::string> {
 protected:
  bool on_torus() const { return GetParam() == "maxtext"; }

  Recipe read(const frameworks::Settings& settings, const Case& from) const {
    return frameworks::read(GetParam(), settings.text, std::ssize(from.placed().seats));
  }
};

/// Without near settings, what is written is the plan or nothing is.
TEST_P(EveryFormat, ReadsBackThePlan) {
  const std::uint64_t cases = seeds(kCases);
  std::uint64_t written = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    Dice dice(seed);
    const Case from = random_case(dice, on_torus());
    try {
      const frameworks::Settings settings = from.settings(GetParam());
      EXPECT_EQ(read(settings, from), frameworks::carried(GetParam(), expected_recipe(from)))
          << "seed " << seed << "\n"
          << settings.text;
      ++written;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(written, cases / 50);
  EXPECT_LT(written, cases);
}

/// With them, everything that is not the plan's is remarked on, and degrees stay.
TEST_P(EveryFormat, NearSettingsAreSaid) {
  const std::uint64_t cases = seeds(kCases);
  std::uint64_t other = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    Dice dice(seed);
    const Case from = random_case(dice, on_torus());
    frameworks::Settings settings;
    try {
      settings = from.settings(GetParam(), /*nearest=*/true);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
      continue;
    }
    const Recipe recipe = read(settings, from);
    Recipe plan = frameworks::carried(GetParam(), expected_recipe(from));
    if (recipe == plan) continue;
    ++other;
    EXPECT_FALSE(settings.remarks.empty()) << "seed " << seed;
    const auto remarked = [&](const char* field, bool differs) {
      if (!differs) return;
      EXPECT_NE(settings.text.find(field), std::string::npos) << field << " of seed " << seed;
    };
    remarked("stages[].zero", recipe.zero != plan.zero);
    remarked("stages[].recompute", recipe.recompute != plan.recompute);
    remarked("strategy.schedule", recipe.schedule != plan.schedule);
    plan.zero = recipe.zero;
    plan.shard_groups = recipe.shard_groups;
    plan.recompute = recipe.recompute;
    plan.schedule = recipe.schedule;
    plan.context = recipe.context;
    plan.sequence_parallel = recipe.sequence_parallel;
    plan.layout = recipe.layout;
    EXPECT_EQ(recipe, plan) << "seed " << seed;
  }
  EXPECT_GT(other, cases / 100);
}

/// Where the plan can be told, asking for the nearest changes nothing.
TEST_P(EveryFormat, TheNearestOfAPlanThatFitsIsThePlan) {
  for (std::uint64_t seed = 0; seed < seeds(500); ++seed) {
    Dice dice(seed);
    const Case from = random_case(dice, on_torus());
    try {
      EXPECT_EQ(from.settings(GetParam()).text, from.settings(GetParam(), true).text);
    } catch (const Error&) {
      // refused without the nearest
    }
  }
}

TEST_P(EveryFormat, DamagedSettingsAreRefusedInOneLine) {
  Dice dice(7);
  std::uint64_t refused = 0;
  for (std::uint64_t seed = 0; seed < seeds(1000); ++seed) {
    Dice cases(seed);
    const Case from = random_case(cases, on_torus());
    std::string text;
    try {
      text = from.settings(GetParam(), true).text;
    } catch (const Error&) {
      continue;
    }
    text.erase(static_cast<std::size_t>(dice.between(0, std::ssize(text) - 1)),
               static_cast<std::size_t>(dice.between(1, 40)));
    try {
      frameworks::read(GetParam(), text, std::ssize(from.placed().seats));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, ::testing::ValuesIn(frameworks::format_names()),
                         [](const auto& format) { return format.param; });

}  // namespace
}  // namespace nestplan::testing

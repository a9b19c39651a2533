#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "frameworks/plans.hpp"
#include "nestplan/frameworks/frameworks.hpp"
#include "nestplan/util/errors.hpp"
#include "support/seeds.hpp"

namespace nestplan::testing {
namespace {

using frameworks::Recipe;

constexpr std::uint64_t kCases = 4000;

/// A plan that is refused is the user's to mend, never a writer that contradicts its reader.
void expect_bad_input(const Error& error) {
  EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
  EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
}

bool is_even(const Recipe& r) {
  return frameworks::kind_of(r.layout, r.pp) == model::StageConstraints::Layout::kEven;
}

/// What the documentation of a format has settings for.
std::vector<std::string> forms_of(const std::string& format) {
  if (format == "deepspeed") {
    return {
        "ZeRO 0",         "ZeRO 1", "ZeRO 2",     "ZeRO 3", "pods",           "precision bf16",
        "precision fp16", "even",   "all-to-all", "EP",     "recompute full", "recompute selective",
        "hidden sync"};
  }
  if (format == "torchtitan") {
    return {"ZeRO 0",   "ZeRO 1",        "ZeRO 2",        "ZeRO 3",          "pods",
            "ring",     "vpp",           "even",          "uneven",          "gpipe",
            "EP · ETP", "hidden tensor", "precision fp8", "precision mxfp8", "recompute full"};
  }
  if (format == "maxtext") {
    return {"ZeRO 0", "ZeRO 1",        "ZeRO 3",      "pods",           "ring",
            "EP",     "precision fp8", "predictions", "recompute full", "recompute selective"};
  }
  return {"ZeRO 0",
          "ZeRO 1",
          "ZeRO 2",
          "ZeRO 3",
          "pods",
          "ring",
          "vpp",
          "all-to-all",
          "even",
          "uneven",
          "EP",
          "EP · ETP",
          "predictions",
          "hidden tensor",
          "hidden expert",
          "hidden sync",
          "precision mxfp8",
          "precision fp8",
          "recompute full",
          "recompute selective"};
}

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
      expect_bad_input(error);
    }
  }
  EXPECT_GT(written, cases / 50);
  EXPECT_LT(written, cases);
}

/// Of what a format can say, plans that fit have all of it: a round trip proves nothing of what no
/// plan has.
TEST_P(EveryFormat, RoundTripsHaveEveryFormThatIsSaid) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {  // a fixed number: forms are to be met
    Dice dice(seed);
    const Case from = random_case(dice, on_torus());
    try {
      from.settings(GetParam());
    } catch (const Error& error) {
      expect_bad_input(error);
      continue;
    }
    const Recipe r = frameworks::carried(GetParam(), expected_recipe(from));
    seen.insert(fmt::format("ZeRO {}", r.zero));
    seen.insert(fmt::format("precision {}", r.precision));
    seen.insert(fmt::format("recompute {}", model::to_string(r.recompute)));
    if (r.shard_groups > 1) seen.insert("pods");
    if (r.cp > 1) seen.insert(r.context == model::ContextForm::kRing ? "ring" : "all-to-all");
    if (r.vpp > 1) seen.insert("vpp");
    if (r.pp > 1) seen.insert(is_even(r) ? "even" : "uneven");
    if (r.pp > 1 && r.schedule == model::Schedule::kGPipe) seen.insert("gpipe");
    if (r.ep > 1) seen.insert(r.etp == r.tp ? "EP" : "EP · ETP");
    if (frameworks::predictions_of(r.layout) > 0) seen.insert("predictions");
    if (r.hidden.tensor) seen.insert("hidden tensor");
    if (r.hidden.expert) seen.insert("hidden expert");
    if (r.hidden.sync) seen.insert("hidden sync");
  }
  for (const std::string& form : forms_of(GetParam())) {
    EXPECT_TRUE(seen.contains(form)) << form;
  }
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
      expect_bad_input(error);
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
    plan.hidden = recipe.hidden;
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
    } catch (const Error& error) {
      expect_bad_input(error);  // refused without the nearest
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
    } catch (const Error& error) {
      expect_bad_input(error);
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

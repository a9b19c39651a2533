#include "cli/search_options.hpp"

#include <gtest/gtest.h>

#include <string>

#include "nestplan/io/files.hpp"

namespace nestplan::cli {
namespace {

TEST(SearchOptions, DefaultsAndInputsAreLeftOut) {
  EXPECT_TRUE(search_options(parse_flags(Command::kPlan, {})).empty());
  const Flags flags = parse_flags(Command::kPlan, {{"model", {"m"}},
                                                   {"cluster", {"c.json"}},
                                                   {"zero", {"0,1,2,3"}},
                                                   {"output", {"plan.json"}},
                                                   {"time-limit", {"3"}},
                                                   {"pp", {"4", "2"}},
                                                   {"global-batch", {"16"}},
                                                   {"per-stage-strategies", {"true"}},
                                                   {"explain", {"true"}}});
  const io::SearchOptions expected{
      {"global-batch", "16"}, {"pp", "2,4"}, {"per-stage-strategies", ""}, {"explain", ""}};
  EXPECT_EQ(search_options(flags), expected);
}

TEST(SearchOptions, CommandsReadBackToTheSame) {
  const io::SearchOptions options{{"tp", "2,4"}, {"whole-hosts", ""}, {"cut", "a b|it's"}};
  EXPECT_EQ(command_text(options), " --tp 2,4 --whole-hosts --cut 'a b|it'\\''s'");
}

TEST(SearchOptions, OnlyWhatChoosesPlansRestricts) {
  const io::SearchOptions options{
      {"global-batch", "16"}, {"tp", "2,4"},   {"overlap", "tensor=0.5"},
      {"objective", "paper"}, {"pin", "a=1"},  {"whole-hosts", ""},
      {"top", "3"},           {"nonsense", ""}};
  EXPECT_EQ(restriction_text(options), "tp 2,4, pin a=1, whole-hosts");
  EXPECT_EQ(restriction_text({}), "");
}

}  // namespace
}  // namespace nestplan::cli

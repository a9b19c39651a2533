#include "cli/flags.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "nestplan/util/errors.hpp"

namespace nestplan::cli {
namespace {

TEST(FlagsTest, DefaultsComeFromTheTable) {
  const Flags flags = parse_flags(Command::kPlan, {});
  EXPECT_EQ(flags.state_bytes, (std::vector<double>{2, 4, 12}));
  EXPECT_EQ(flags.zero, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(flags.recompute.size(), 2U);
  EXPECT_EQ(flags.precision, "bf16");
  EXPECT_FALSE(flags.global_batch.has_value());
}

TEST(FlagsTest, ListsTakeCommasAndRepetitionAndAreSorted) {
  const Flags flags = parse_flags(Command::kPlan, {{"tp", {"8,2", "4", "2"}}});
  EXPECT_EQ(flags.tp, (std::vector<std::int64_t>{2, 4, 8}));
}

TEST(FlagsTest, NamesAreUniqueAndSpelledForAConfiguration) {
  std::map<std::string_view, unsigned> commands;  // names may be shared, but not within a command
  for (const Option& option : options()) {
    EXPECT_EQ(commands[option.name] & option.commands, 0U) << option.name;
    commands[option.name] |= option.commands;
    EXPECT_EQ(option.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), std::string_view::npos);
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_EQ(option.is_switch(), option.value.empty()) << option.name;
  }
}

TEST(FlagsTest, OptionsOfOtherCommandsKeepTheirHandsOff) {
  EXPECT_TRUE(parse_flags(Command::kInspect, {}).state_bytes.empty());
}

TEST(FlagsTest, ErrorsNameTheFlag) {
  try {
    parse_flags(Command::kPlan, {{"zero", {"9"}}});
    FAIL() << "accepted";
  } catch (const InvalidConfig& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("--zero: ")) << error.what();
  }
}

}  // namespace
}  // namespace nestplan::cli

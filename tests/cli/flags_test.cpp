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
  EXPECT_EQ(flags.recompute.size(), 3U);
  EXPECT_EQ(flags.vpp, std::vector<std::int64_t>{1});
  EXPECT_EQ(flags.shard, std::vector<std::string>{"all"});
  EXPECT_EQ(flags.precision, "bf16");
  EXPECT_FALSE(flags.global_batch.has_value());
  EXPECT_FALSE(flags.target.has_value());
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

TEST(FlagsTest, MemoryHasItsUnit) {
  const Flags flags = parse_flags(Command::kPlan, {{"context-reserve", {"1.5 GiB"}},
                                                   {"communicator-buffer", {"0.3 kB"}},
                                                   {"memory-margin", {"7 %"}}});
  EXPECT_EQ(flags.context_reserve, 1.5 * 1024 * 1024 * 1024);
  EXPECT_EQ(flags.communicator_buffer, 300);
  EXPECT_EQ(flags.memory_margin, 7);
  const auto refused = [](std::string_view name, const char* value) {
    try {
      parse_flags(Command::kPlan, {{name, {value}}});
    } catch (const InvalidConfig& error) {
      return std::string_view(error.what()).starts_with("--" + std::string(name) + ": ");
    }
    return false;
  };
  for (const char* value : {"5", "5 GB/s", "-1 GB", "1e30 GB", "", "nan B"}) {
    EXPECT_TRUE(refused("context-reserve", value)) << value;
  }
  for (const char* value : {"5", "0.05", "100%", "-1%", "%", "5  %", "nan%", "5 % "}) {
    EXPECT_TRUE(refused("memory-margin", value)) << value;
  }
}

TEST(FlagsTest, SearchValuesReadBackToTheSame) {
  const Flags flags = parse_flags(Command::kPlan, {{"context-reserve", {"2.3 GB"}},
                                                   {"memory-margin", {"0.1%"}},
                                                   {"pin", {"a=first,b.*=2"}},
                                                   {"cut", {"a|b,c"}},
                                                   {"most-stage-layers", {"3"}},
                                                   {"vpp", {"1,2"}},
                                                   {"shard", {"pod"}},
                                                   {"what-if", {"true"}}});
  const auto values = search_values(flags);
  EXPECT_FALSE(values.contains("what-if")) << "not about the plan";
  RawValues raw;
  for (const Option& option : options()) {
    const auto found = values.find(std::string(option.name));
    if (found != values.end()) raw[option.name] = found->second;
  }
  const Flags again = parse_flags(Command::kPlan, raw);
  EXPECT_EQ(search_values(again), values);
  EXPECT_EQ(again.context_reserve, 2.3e9);
  EXPECT_EQ(again.memory_margin, 0.1);
  EXPECT_EQ(again.pin, (std::vector<std::string>{"a=first", "b.*=2"}));
  EXPECT_EQ(again.shard, std::vector<std::string>{"pod"});
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

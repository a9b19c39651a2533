#include "distributed/layout.hpp"

#include <gtest/gtest.h>

#include "nestplan/util/errors.hpp"

namespace nestplan::distributed {
namespace {

TEST(ParseLayout, ReadsThreeNumbers) {
  const RankLayout layout = parse_layout("2x3x1", 6);
  EXPECT_EQ(layout.groups, 2);
  EXPECT_EQ(layout.team.downsets, 3);
  EXPECT_EQ(layout.team.stages, 1);
}

TEST(ParseLayout, RefusesWhatIsNotALayout) {
  for (const char* text : {"", "2", "2x3", "2x3x", "2x3x1x1", "ax1x1", "0x1x6", "-2x3x-1", "2X3X1",
                           "99999999999x1x1", "2x3x1 "}) {
    EXPECT_THROW(parse_layout(text, 6), InvalidConfig) << text;
  }
}

TEST(ParseLayout, NamesTheNumberOfRanks) {
  try {
    parse_layout("2x2x1", 6);
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_STREQ(error.what(), "--grid: 2x2x1 is 4 ranks, but there are 6");
  }
}

}  // namespace
}  // namespace nestplan::distributed

#include "nestplan/util/csv.hpp"

#include <gtest/gtest.h>

#include "util/expect_error.hpp"

namespace nestplan::util {
namespace {

using Cells = std::vector<std::string>;

std::string error_of(const std::string& text) {
  return test::message_of([&] { parse_csv(text, "t.csv"); });
}

TEST(Csv, ReadsQuotedAndEmptyCells) {
  const Csv csv =
      parse_csv("\xEF\xBB\xBF# note\n\na, b ,c\r\n1,\"x, \"\"y\"\"\nz\", \r\n,,3", "t.csv");
  EXPECT_EQ(csv.columns, (Cells{"a", "b", "c"}));
  ASSERT_EQ(csv.rows.size(), 2U);
  EXPECT_EQ(csv.rows[0].cells, (Cells{"1", "x, \"y\"\nz", ""}));
  EXPECT_EQ(csv.rows[0].line, 4U);
  EXPECT_EQ(csv.rows[1].cells, (Cells{"", "", "3"}));
  EXPECT_EQ(csv.rows[1].line, 6U);
}

TEST(Csv, AHeaderAloneIsATable) { EXPECT_TRUE(parse_csv("a,b\n", "t.csv").rows.empty()); }

TEST(Csv, TellsWhereItIsBroken) {
  EXPECT_EQ(error_of(""), "t.csv:1: there is no header");
  EXPECT_EQ(error_of("# nothing\n"), "t.csv:1: there is no header");
  EXPECT_EQ(error_of("a,,b\n"), "t.csv:1: a column has no name");
  EXPECT_EQ(error_of("a,b,a\n"), "t.csv:1: column \"a\" is there twice");
  EXPECT_EQ(error_of("a,b\n1,2\n1\n"), "t.csv:3: 1 cells, but 2 columns");
  EXPECT_EQ(error_of("a,b\n1,\"2\n"), "t.csv:2: a quote does not end");
  EXPECT_EQ(error_of("a,b\n\"1\"x,2\n"), "t.csv:2: there is \"x\" behind a quote");
}

}  // namespace
}  // namespace nestplan::util

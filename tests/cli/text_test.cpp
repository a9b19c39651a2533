#include "cli/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace nestplan::cli {
namespace {

TEST(Counted, SaysOneOrMany) {
  EXPECT_EQ(counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(counted(0, "micro-batch"), "0 micro-batches");
  EXPECT_EQ(counted(1024, "stage"), "1,024 stages");
  EXPECT_EQ(counted(1, "strategy"), "1 strategy");
  EXPECT_EQ(counted(2, "strategy"), "2 strategies");
}

TEST(TextTest, NamesAreDrawnTogether) {
  EXPECT_EQ(names_text({}), "");
  EXPECT_EQ(names_text({"embedding", "layer.0", "layer.1", "layer.2"}), "embedding, layer.0–2");
  EXPECT_EQ(names_text({"layer.9", "layer.10", "head"}), "layer.9–10, head");
  EXPECT_EQ(names_text({"layer.0", "layer.2"}), "layer.0, layer.2");
  EXPECT_EQ(names_text({"a1", "b2"}), "a1, b2");
  EXPECT_EQ(names_text({"x07", "x08"}), "x07, x08");
  EXPECT_EQ(names_text({"7", "8"}), "7–8");
  EXPECT_EQ(names_text({"n99999999999999999999", "n99999999999999999999"}),
            "n99999999999999999999, n99999999999999999999");
}

TEST(TextTest, NamesCannotSteerTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31mb").find('\x1b'), std::string::npos);
  EXPECT_EQ(printable("\"a\\b\"\n\xff–"), "\"a\\b\"\\n\\xff–");
  EXPECT_EQ(printable(""), "");
}

TEST(TextTest, Ranges) {
  EXPECT_EQ(range_text({3, 4}), "3");
  EXPECT_EQ(range_text({0, 8}), "0–7");
  EXPECT_EQ(ranges_text({{0, 2}, {4, 5}}), "0–1, 4");
  EXPECT_EQ(ranges_text({{0, 1}, {2, 3}, {4, 5}}, 2), "0, 2, … (3 ranges)");
}

TEST(TextTest, Complement) {
  EXPECT_EQ(ranges_text(complement({{0, 2}, {3, 4}}, 8)), "2, 4–7");
  EXPECT_TRUE(complement({{0, 8}}, 8).empty());
  EXPECT_EQ(ranges_text(complement({}, 3)), "0–2");
}

TEST(TextTest, WidthCountsCharacters) {
  EXPECT_EQ(display_width("a–b"), 3U);
  EXPECT_EQ(shortened("abcdef", 4), "abc…");
  EXPECT_EQ(shortened("a–––––", 3), "a–…");
  EXPECT_EQ(shortened("abcd", 4), "abcd");
}

TEST(TextTest, Gibibytes) {
  EXPECT_EQ(gibibytes(80e9), "74.5");
  EXPECT_EQ(gibibytes(1 << 20), "0.0010");
}

TEST(TextTest, Seconds) {
  EXPECT_EQ(precise_seconds(10.0512), "10.05 s");
  EXPECT_EQ(precise_seconds(0.81234), "812.3 ms");
  EXPECT_EQ(precise_seconds(2.5e-6), "2.500 us");
}

TEST(TextTest, TableLinesUpAndCutsTheFlexibleColumn) {
  Table table({{"n", Table::Align::kRight}, {"name"}, {"x", Table::Align::kRight}});
  table.add({"1", "short", "1.5"});
  table.add({"12", "a name that is far too long", "20"});
  EXPECT_EQ(table.text(1),
            "   n  name                           x\n"
            "   1  short                        1.5\n"
            "  12  a name that is far too long   20\n");
  EXPECT_EQ(table.text(1, 24),
            "   n  name             x\n"
            "   1  short          1.5\n"
            "  12  a name that …   20\n");
}

TEST(TextTest, TablesCanGoOnInLinesBelow) {
  Table table({{"n", Table::Align::kRight}, {"name"}, {"x", Table::Align::kRight}});
  table.add({"1", "short", "1.5"});
  table.add({"12", "a name that is far too long", "20"});
  EXPECT_EQ(table.wrapped_text(1, 24),
            "   n  name             x\n"
            "   1  short          1.5\n"
            "  12  a name that     20\n"
            "      is far too\n"
            "      long\n");
  EXPECT_EQ(table.wrapped_text(1), table.text(1));
}

}  // namespace
}  // namespace nestplan::cli

#include "nestplan/util/text.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace nestplan::util {
namespace {

const std::vector<std::string> kKeys{"bandwidth", "latency", "oversubscription", "fanout"};

TEST(Quoted, LeavesReadableTextAlone) {
  EXPECT_EQ(util::quoted("layer.0"), "\"layer.0\"");
  EXPECT_EQ(util::quoted("couche № 1 – ü"), "\"couche № 1 – ü\"");
  EXPECT_EQ(util::quoted(""), "\"\"");
}

TEST(Quoted, EscapesWhatWouldBreakALineOrATerminal) {
  EXPECT_EQ(util::quoted("a\nb\tc\r"), "\"a\\nb\\tc\\r\"");
  EXPECT_EQ(util::quoted("\x1b[31m"), "\"\\x1b[31m\"");
  EXPECT_EQ(util::quoted(std::string("\0", 1)), "\"\\x00\"");
  EXPECT_EQ(util::quoted("say \"hi\" \\"), "\"say \\\"hi\\\" \\\\\"");
  EXPECT_EQ(util::quoted("\xc2\x9b"
                         "1m"),
            "\"\\xc2\\x9b1m\"")
      << "C1 control sequence introducer";
  EXPECT_EQ(util::quoted("\xe2\x80\xae"
                         "x"),
            "\"\\xe2\\x80\\xaex\"")
      << "right-to-left override";
}

TEST(Quoted, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(util::quoted("\xff\xfe"), "\"\\xff\\xfe\"");
  EXPECT_EQ(util::quoted("\xc3"), "\"\\xc3\"") << "cut sequence";
  EXPECT_EQ(util::quoted("\xc0\xaf"), "\"\\xc0\\xaf\"") << "overlong";
  EXPECT_EQ(util::quoted("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"") << "surrogate";
  EXPECT_EQ(util::quoted("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\"") << "beyond U+10FFFF";
}

TEST(Quoted, CutsLongTextBetweenCodePoints) {
  EXPECT_EQ(util::quoted("abcdef", 3), "\"abc…\"");
  EXPECT_EQ(util::quoted("üüü", 2), "\"üü…\"");
  EXPECT_EQ(util::quoted("abc", 3), "\"abc\"");
  EXPECT_LT(util::quoted(std::string(10'000'000, 'x')).size(), 80U);
}

TEST(EditCost, CountsEditsAndHalfForCase) {
  EXPECT_EQ(edit_cost("tp", "tp"), 0U);
  EXPECT_EQ(edit_cost("TP", "tp"), 2U);
  EXPECT_EQ(edit_cost("tp1", "tp2"), 2U);
  EXPECT_EQ(edit_cost("", "abc"), 6U);
  EXPECT_EQ(edit_cost("abc", ""), 6U);
  EXPECT_EQ(edit_cost("fanuot", "fanout"), 2U) << "swapped neighbours";
}

TEST(Nearest, FindsWhatWasMeant) {
  EXPECT_EQ(nearest("bandwith", kKeys), "bandwidth");
  EXPECT_EQ(nearest("Latency", kKeys), "latency");
  EXPECT_EQ(nearest("fan_out", kKeys), "fanout");
  EXPECT_EQ(nearest("oversubscribtion", kKeys), "oversubscription");
}

TEST(Nearest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("zzz", kKeys), std::nullopt);
  EXPECT_EQ(nearest(std::string(1'000'000, 'b'), kKeys), std::nullopt);
  EXPECT_EQ(nearest("x", {}), std::nullopt);
}

TEST(Hint, NamesTheNearestOrListsAll) {
  EXPECT_EQ(hint("latncy", kKeys), " (did you mean \"latency\"?)");
  EXPECT_EQ(hint("q", kKeys),
            " (known: \"bandwidth\", \"latency\", \"oversubscription\", \"fanout\")");
  EXPECT_EQ(hint("q", {}), "");
  EXPECT_NE(hint("q", std::vector<std::string>(100, "long.name")).find("and 88 more"),
            std::string::npos);
}

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1250000000), "1.25 GB");
  EXPECT_EQ(format_bytes(80e9), "80 GB");
  EXPECT_EQ(format_bytes(999.6e3), "1 MB") << "never 1000 kB";
  EXPECT_EQ(format_bytes_binary(80.0 * 1024 * 1024 * 1024), "80 GiB");
  EXPECT_EQ(format_bytes_binary(80e9), "74.5 GiB");
  EXPECT_EQ(format_bytes_binary(1000.0 * 1024), "1000 KiB");
}

TEST(Format, Seconds) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(2.5e-6), "2.5 us");
  EXPECT_EQ(format_seconds(1.25e-3), "1.25 ms");
  EXPECT_EQ(format_seconds(1e-9), "1 ns");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(185), "3 min 05 s");
  EXPECT_EQ(format_seconds(7500), "2 h 05 min");
}

TEST(Format, CountsAndRates) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(16384), "16,384");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_si(989e12, "FLOP/s"), "989 TFLOP/s");
  EXPECT_EQ(format_si(3.35e12, "B/s"), "3.35 TB/s");
}

}  // namespace
}  // namespace nestplan::util

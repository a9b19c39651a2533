#include "nestplan/util/units.hpp"

#include <gtest/gtest.h>

#include "util/expect_error.hpp"

namespace nestplan::util {
namespace {

using test::expect_contains;
using test::message_of;

TEST(Units, Bytes) {
  EXPECT_EQ(parse_bytes("80 GiB"), 80.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(parse_bytes("80 GB"), 80e9);
  EXPECT_EQ(parse_bytes("80GB"), 80e9);
  EXPECT_EQ(parse_bytes(" 1.5  kB "), 1500);
  EXPECT_EQ(parse_bytes("96636764160 B"), 96636764160.0);
  EXPECT_EQ(parse_bytes("0 B"), 0);
  EXPECT_EQ(parse_bytes("8 Kib"), 1024);
  EXPECT_EQ(parse_bytes("1 EiB"), 1152921504606846976.0);
}

TEST(Units, BandwidthInBytesAndBits) {
  EXPECT_EQ(parse_bandwidth("450 GB/s"), 450e9);
  EXPECT_EQ(parse_bandwidth("400 Gb/s"), 50e9);
  EXPECT_EQ(parse_bandwidth("3.35 TB/s"), 3.35e12);
  EXPECT_EQ(parse_bandwidth("12.5 GiB/s"), 12.5 * 1024 * 1024 * 1024);
  EXPECT_EQ(parse_bandwidth("8 b/s"), 1);
}

TEST(Units, Time) {
  EXPECT_EQ(parse_seconds("2.5 us"), 2.5e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("0.1 us"), 0.1e-6);
  EXPECT_EQ(parse_seconds("300 ns"), 3e-7);
  EXPECT_EQ(parse_seconds("7 ms"), 7e-3);
  EXPECT_EQ(parse_seconds("1e-3 s"), 1e-3);
}

TEST(Units, Flops) {
  EXPECT_EQ(parse_flops("989 TFLOP/s"), 989e12);
  EXPECT_EQ(parse_flops("1 EFLOP/s"), 1e18);
  EXPECT_EQ(parse_flops("5 FLOP/s"), 5);
}

TEST(Units, NumbersWithoutAUnitAreRefused) {
  expect_contains(message_of([] { parse_bandwidth("450"); }), "for example \"450 GB/s\"");
  expect_contains(message_of([] { parse_seconds("2"); }), "for example \"2 us\"");
  expect_contains(message_of([] { parse_flops("989"); }), "for example \"989 TFLOP/s\"");
}

TEST(Units, NearMissesAreNamed) {
  const auto meant = [](auto parse, const char* written, const char* right) {
    expect_contains(message_of([&] { parse(written); }),
                    std::string("did you mean \"") + right + "\"?");
  };
  meant(parse_bandwidth, "450 GBps", "450 GB/s");
  meant(parse_bandwidth, "400 Gbps", "400 Gb/s");
  meant(parse_bandwidth, "400 Gbit/s", "400 Gb/s");
  meant(parse_bandwidth, "450GB", "450 GB/s");
  meant(parse_bytes, "80 GB/s", "80 GB");
  meant(parse_bytes, "80 GIB", "80 GiB");
  meant(parse_bytes, "80 Gbytes", "80 GB");
  meant(parse_bytes, "64 KB", "64 kB");
  meant(parse_flops, "989 TFLOPS", "989 TFLOP/s");
  meant(parse_flops, "989 tflop/s", "989 TFLOP/s");
  meant(parse_seconds, "2.5 sec", "2.5 s");
  meant(parse_seconds, "2.5 µs", "2.5 us");
  meant(parse_seconds, "2.5 US", "2.5 us");
}

TEST(Units, WrongDimensionSaysWhatIsExpected) {
  expect_contains(message_of([] { parse_bytes("3 us"); }), "not an amount of data");
  expect_contains(message_of([] { parse_seconds("3 GB"); }), "not a time");
  expect_contains(message_of([] { parse_bandwidth("3 TFLOP/s"); }), "not a bandwidth");
  expect_contains(message_of([] { parse_flops("3 GB/s"); }), "not a compute rate");
}

TEST(Units, NumbersMustBePlainAndNotNegative) {
  expect_contains(message_of([] { parse_bytes("-1 GB"); }), "negative");
  expect_contains(message_of([] { parse_bytes("-0 GB"); }), "negative");
  for (const char* text : {"nan GB", "inf GB", "-inf GB", "GB", "", "   ", "0x10 GB", "+5 GB",
                           "1,5 GB", "1e999 GB", "1e300 EiB", ". GB", "- GB", "\xff GB"}) {
    const std::string message = message_of([&] { parse_bytes(text); });
    EXPECT_TRUE(message.find("80 GiB") != std::string::npos ||
                message.find("did you mean") != std::string::npos)
        << message;
  }
}

TEST(Units, GarbageGivesAShortMessage) {
  message_of([] { parse_bytes(std::string(1'000'000, '9')); });
  message_of([] { parse_bytes("1 " + std::string(1'000'000, 'G')); });
  message_of([] { parse_bytes("1 \n\x1b[2J"); });
}

}  // namespace
}  // namespace nestplan::util

#include "report/palette.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <utility>

namespace nestplan::report {
namespace {

using Rgb = std::array<double, 3>;  ///< linear light, 0 to 1

Rgb linear(const std::string& hex) {
  Rgb rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double value = std::stoi(hex.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    rgb[i] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

double luminance(const Rgb& c) { return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; }

/// WCAG 2.1: contrast ratio.
double contrast(const std::string& a, const std::string& b) {
  const double one = luminance(linear(a));
  const double other = luminance(linear(b));
  return (std::max(one, other) + 0.05) / (std::min(one, other) + 0.05);
}

/// Oklab (Ottosson, A perceptual color space for image processing, 2020).
Rgb oklab(const Rgb& c) {
  const double l = std::cbrt(0.4122214708 * c[0] + 0.5363325363 * c[1] + 0.0514459929 * c[2]);
  const double m = std::cbrt(0.2119034982 * c[0] + 0.6806995451 * c[1] + 0.1073969566 * c[2]);
  const double s = std::cbrt(0.0883024619 * c[0] + 0.2817188376 * c[1] + 0.6299787005 * c[2]);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

double distance(const std::string& a, const std::string& b) {
  const Rgb one = oklab(linear(a));
  const Rgb other = oklab(linear(b));
  return std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
}

TEST(Palette, TextIsReadableOnTints) {
  for (const Tint& tint : kTints) {
    EXPECT_GE(contrast(kInk, tint.fill), 4.5) << tint.fill;
    EXPECT_GE(contrast(kInk, tint.mark), 4.5) << tint.mark;
  }
}

TEST(Palette, TextIsReadableInBothSchemes) {
  for (const Scheme& scheme : {kLight, kDark}) {
    for (const char* ground : {scheme.paper, scheme.panel}) {
      for (const char* text : {scheme.ink, scheme.quiet, scheme.link}) {
        EXPECT_GE(contrast(text, ground), 4.5) << text << " on " << ground;
      }
      EXPECT_GE(contrast(scheme.edge, ground), 3) << scheme.edge << " on " << ground;
    }
  }
}

/// Marks are seen on their tints in grey, and a backward step is darker than a forward one.
TEST(Palette, PatternsAreSeenInGrey) {
  for (const Tint& tint : kTints) EXPECT_GE(contrast(tint.fill, tint.mark), 1.6) << tint.fill;
}

TEST(Palette, TintsAreDistinct) {
  for (std::size_t i = 0; i < kTints.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_GE(distance(kTints[i].fill, kTints[j].fill), 0.04)
          << kTints[i].fill << " and " << kTints[j].fill;
    }
  }
}

TEST(Palette, LooksDifferByTintOrPattern) {
  std::set<std::pair<std::size_t, std::size_t>> looks;
  for (std::size_t i = 0; i < kTints.size() * kPatterns; ++i) {
    EXPECT_TRUE(looks.emplace(tint_of(i), pattern_of(i)).second) << i;
    EXPECT_NE(pattern_of(i), pattern_of(i + 1)) << i;
    EXPECT_NE(tint_of(i), tint_of(i + 1)) << i;
  }
}

TEST(Palette, EveryFillIsDefined) {
  const std::string definitions = pattern_definitions(20);
  for (std::size_t i = 0; i < 20; ++i) {
    const std::string fill = fill_of(i);  // url(#look3)
    const std::string id = fill.substr(5, fill.size() - 6);
    EXPECT_NE(definitions.find("id=\"" + id + "\""), std::string::npos) << id;
  }
  EXPECT_EQ(definitions.find("id=\"look20\""), std::string::npos);
  EXPECT_EQ(fill_of(64), fill_of(0));
}

}  // namespace
}  // namespace nestplan::report

#include "report/palette.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nestplan::report {
namespace {

constexpr std::size_t kLooks = kTints.size() * kPatterns;

/// Lines and dots of one tile of 8 × 8, drawn in the mark's colour.
constexpr std::array<const char*, kPatterns> kPatternPaths{
    "",                              // plain
    "M-1 9L9 -1M-1 1L1 -1M7 9L9 7",  // rising
    "M0 4h8",                        // level
    "M2 2h.01M6 6h.01",              // dots
    "M-1 -1L9 9M-1 7L1 9M7 -1L9 1",  // falling
    "M4 0v8",                        // upright
    "M0 0L8 8M8 0L0 8",              // crossed
    "M0 4h8M4 0v8",                  // grid
};
constexpr std::size_t kDots = 3;

std::string properties(const Scheme& scheme) {
  return fmt::format("--paper:{};--panel:{};--ink:{};--quiet:{};--link:{};--edge:{};", scheme.paper,
                     scheme.panel, scheme.ink, scheme.quiet, scheme.link, scheme.edge);
}

}  // namespace

std::size_t tint_of(std::size_t index) { return index % kTints.size(); }

std::size_t pattern_of(std::size_t index) {
  const std::size_t round = index / kTints.size();
  return (index + round) % kPatterns;
}

std::string fill_of(std::size_t index) { return fmt::format("url(#look{})", index % kLooks); }

std::string pattern_definitions(std::size_t count) {
  std::string out =
      "<svg width=\"0\" height=\"0\" aria-hidden=\"true\" focusable=\"false\" "
      "style=\"position:absolute\"><defs>";
  for (std::size_t i = 0; i < std::min(count, kLooks); ++i) {
    const Tint& tint = kTints[tint_of(i)];
    const std::size_t pattern = pattern_of(i);
    out += fmt::format(
        "<pattern id=\"look{}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
        "<rect width=\"8\" height=\"8\" fill=\"{}\"/>",
        i, tint.fill);
    if (pattern > 0) {
      out += fmt::format(
          "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
          "stroke-linecap=\"{}\"/>",
          kPatternPaths[pattern], tint.mark, pattern == kDots ? "2.4" : "1.2",
          pattern == kDots ? "round" : "butt");
    }
    out += "</pattern>";
  }
  return out + "</defs></svg>\n";
}

std::string colour_rules() {
  const std::string light = properties(kLight);
  return fmt::format(
      ":root{{color-scheme:light dark;{0}}}\n"
      "@media (prefers-color-scheme:dark){{:root{{{1}}}}}\n"
      "@media print{{:root{{color-scheme:light;{0}}}}}\n"
      "svg .on{{fill:{2}}}\n"
      "svg .forward{{fill:{3};stroke:var(--edge)}}\n"
      "svg .backward{{fill:{4};stroke:var(--edge)}}\n",
      light, properties(kDark), kInk, kTints.front().fill, kTints.front().mark);
}

}  // namespace nestplan::report

#include "report/figure.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <regex>
#include <string>

#include "report/breakdowns.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::report {
namespace {

struct Span {
  double begin = 0, width = 0;
};

/// The parts of all bars in `markup`, as percentages.
std::vector<Span> spans(const std::string& markup) {
  const std::regex part("<rect x=\"([0-9.]+)%\" y=\"3\" width=\"([0-9.]+)%\"");
  std::vector<Span> all;
  for (std::sregex_iterator p(markup.begin(), markup.end(), part), end; p != end; ++p) {
    all.push_back({std::stod((*p)[1]), std::stod((*p)[2])});
  }
  return all;
}

TEST(Figure, CoordinatesAreShort) {
  EXPECT_EQ(units(1.0 / 3), "0.33");
  EXPECT_EQ(units(-0.001), "0");
  EXPECT_EQ(units(12), "12");
}

TEST(Figure, AllIsDrawnOrBothEnds) {
  EXPECT_EQ(drawn_of(3), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(drawn_of(24).size(), 24U);
  const auto some = drawn_of(100);
  EXPECT_EQ(some.size(), 20U);
  EXPECT_EQ(some[9], 9U);
  EXPECT_EQ(some[10], 90U);
  EXPECT_EQ(some.back(), 99U);
}

TEST(Figure, PartsOfTheTimeFillTheBar) {
  for (std::uint64_t seed = 0; seed < testing::seeds(100); ++seed) {
    testing::Dice dice(seed);
    const auto seconds = [&] {
      return dice.chance(30) ? 0.0 : 1e-3 * static_cast<double>(dice.between(1, 1000));
    };
    const model::TimeSplit split{1e-3 + seconds(), seconds(), seconds(), seconds(),
                                 seconds(),        seconds(), seconds()};
    Html html;
    write_time_split(html, "split", split);
    double end = 0;
    for (const Span& span : spans(html.str())) {
      EXPECT_NEAR(span.begin, end, 0.011);
      EXPECT_GT(span.width, 0);
      end = span.begin + span.width;
    }
    EXPECT_NEAR(end, 100, 0.02);
  }
}

/// All bars have one scale, the items of each add up to its total, and the limit is where it is.
TEST(Figure, MemoryBarsAddUp) {
  for (std::uint64_t seed = 0; seed < testing::seeds(100); ++seed) {
    testing::Dice dice(seed);
    std::vector<StageRecord> stages(static_cast<std::size_t>(dice.between(1, 6)));
    double extent = 0;
    for (StageRecord& stage : stages) {
      model::StageMemory& m = stage.memory;
      for (double* bytes :
           {&m.weight_bytes, &m.gradient_bytes, &m.optimizer_bytes, &m.in_flight_bytes,
            &m.working_bytes, &m.gathered_bytes, &m.context_bytes, &m.communicator_bytes}) {
        *bytes = static_cast<double>(dice.between(0, 20)) * 1e9;
        m.total_bytes += *bytes;
      }
      m.limit_bytes = 75e9;
      m.margin_bytes = 5e9;
      extent = std::max({extent, 80e9, m.total_bytes});
    }
    Html html;
    write_memory_bars(html, "memory", stages);
    const std::vector<Span> all = spans(html.str());
    std::size_t next = 0;
    for (const StageRecord& stage : stages) {
      double end = 0;
      while (next < all.size() && (end == 0 ? all[next].begin == 0 : all[next].begin > 0)) {
        EXPECT_NEAR(all[next].begin, end, 0.011);
        end = all[next].begin + all[next].width;
        ++next;
      }
      EXPECT_NEAR(end, 100 * stage.memory.total_bytes / extent, 0.02);
    }
    EXPECT_EQ(next, all.size());
    EXPECT_NE(html.str().find("x1=\"" + units(100 * 75e9 / extent) + "%\""), std::string::npos);
  }
}

}  // namespace
}  // namespace nestplan::report

#include "cli/progress.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/text.hpp"

namespace nestplan::cli {
namespace {

solver::Progress progress_at(double seconds, std::int64_t done = 0, std::int64_t total = 1000) {
  solver::Progress progress;
  progress.seconds = seconds;
  progress.configurations_done = done;
  progress.configurations_total = total;
  return progress;
}

TEST(ProgressText, TellsShareRateAndTimeLeft) {
  EXPECT_EQ(progress_text(progress_at(20, 250), 0.25),
            "25 %, 250 of 1,000 configurations (12.5/s), about 60 s left");
}

TEST(ProgressText, FollowsTheBestPlan) {
  solver::Progress progress = progress_at(20, 250);
  progress.best_s = 10;
  progress.lower_bound_s = 9;
  EXPECT_EQ(progress_text(progress, 0.5),
            "50 %, 250 of 1,000 configurations (12.5/s), about 20 s left, best 10 s, bound 9 s "
            "(gap 10.0 %)");
}

TEST(ProgressText, ForetellsNothingFromNothing) {
  EXPECT_EQ(progress_text(progress_at(5, 0), 0), "0 %, 0 of 1,000 configurations");
  EXPECT_EQ(progress_text(progress_at(5, 0, 0), std::nullopt), "counting configurations");
  EXPECT_EQ(progress_text(progress_at(5, 10), 0.01), "1 %, 10 of 1,000 configurations (2/s)");
  EXPECT_EQ(progress_text(progress_at(5, 1000), 1), "100 %, 1,000 of 1,000 configurations (200/s)");
}

TEST(ProgressText, LongTimesAreRough) {
  const auto left = [](double done) {
    const std::string text = progress_text(progress_at(600, 100), done);
    return text.substr(text.find("about"));
  };
  EXPECT_EQ(left(0.5), "about 10 min left");
  EXPECT_EQ(left(0.04), "about 4 h 00 min left");
}

TEST(ProgressBar, FillsByEighths) {
  EXPECT_EQ(progress_bar(0, 4), "    ");
  EXPECT_EQ(progress_bar(0.5, 4), "██  ");
  EXPECT_EQ(progress_bar(0.125, 4), "▌   ");
  EXPECT_EQ(progress_bar(1, 4), "████");
  EXPECT_EQ(progress_bar(7, 4), "████");
  EXPECT_EQ(progress_bar(-1, 4), "    ");
  for (int i = 0; i <= 100; ++i) EXPECT_EQ(display_width(progress_bar(i / 100.0, 7)), 7U) << i;
}

/// Collects what a line writes.
class ProgressLineTest : public testing::Test {
 protected:
  ProgressLine::Sink sink(bool terminal, std::size_t width = 80) {
    return {terminal, width, [this](std::string_view text) { written_.emplace_back(text); }};
  }

  /// Shows a search every tenth of a second; the seconds at which something was written.
  std::vector<double> times(ProgressLine& line, double until) {
    std::vector<double> spoken;
    for (int tenth = 0; tenth <= until * 10; ++tenth) {
      const std::size_t before = written_.size();
      line.show(progress_at(tenth / 10.0, tenth));
      if (written_.size() > before) spoken.push_back(tenth / 10.0);
    }
    return spoken;
  }

  std::vector<std::string> written_;
};

TEST_F(ProgressLineTest, ALogIsSpokenToNowAndThen) {
  ProgressLine line("searching", sink(false));
  EXPECT_EQ(times(line, 34), (std::vector<double>{3, 13, 23, 33}));
  EXPECT_EQ(
      written_.front(),
      "nestplan: searching for 3 s: 3 %, 30 of 1,000 configurations (10/s), about 97 s left\n");
}

TEST_F(ProgressLineTest, ALongSearchSpeaksMoreRarely) {
  ProgressLine line("searching", sink(false));
  const std::vector<double> spoken = times(line, 3600);
  EXPECT_LT(spoken.size(), 60U);
  for (std::size_t i = 1; i < spoken.size(); ++i) {
    EXPECT_GE(spoken[i] - spoken[i - 1], 10) << spoken[i];
    EXPECT_GE(spoken[i] - spoken[i - 1], 0.1 * spoken[i - 1] - 0.2) << spoken[i];
  }
}

TEST_F(ProgressLineTest, ATerminalIsRewrittenAndWiped) {
  {
    ProgressLine line("searching", sink(true));
    const std::vector<double> spoken = times(line, 2);
    ASSERT_FALSE(spoken.empty());
    EXPECT_EQ(spoken.front(), 1);
    EXPECT_GE(spoken.size(), 4U);
  }
  for (const std::string& text : written_) EXPECT_TRUE(text.starts_with("\r\x1b[K")) << text;
  EXPECT_EQ(written_.back(), "\r\x1b[K");
}

TEST_F(ProgressLineTest, ShortSearchesAreSilent) {
  {
    ProgressLine line("searching", sink(true));
    EXPECT_TRUE(times(line, 0.9).empty());
  }
  EXPECT_TRUE(written_.empty());
}

TEST_F(ProgressLineTest, ANarrowTerminalIsNotOverrun) {
  ProgressLine line("searching", sink(true, 40));
  line.show(progress_at(10, 500));
  ASSERT_EQ(written_.size(), 1U);
  EXPECT_EQ(display_width(written_.front()) - 4, 39U) << written_.front();
}

TEST_F(ProgressLineTest, ATableInProgressCounts) {
  ProgressLine line("searching", sink(false));
  solver::Progress progress = progress_at(10, 1, 4);
  progress.table_done = 0.5;
  line.show(progress);
  EXPECT_NE(written_.front().find(": 37 %, 1 of 4"), std::string::npos) << written_.front();
}

TEST_F(ProgressLineTest, AGivenShareWins) {
  ProgressLine line("searching", sink(false));
  line.show(progress_at(10, 500), 0.25);
  EXPECT_NE(written_.front().find(": 25 %, 500 of"), std::string::npos) << written_.front();
}

}  // namespace
}  // namespace nestplan::cli

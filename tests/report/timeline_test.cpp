#include "report/timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "report/shapes.hpp"
#include "simulate/line.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::report {
namespace {

/// What simulate() finds for a pipeline without transfers.
simulate::Simulation simulated(const simulate::Pipeline& pipeline) {
  simulate::Simulation simulation;
  const simulate::PodRun run = simulate::run(pipeline, pipeline.kinds[0], true);
  for (const simulate::StageUse& use : run.stages) {
    simulation.makespan_s = std::max(simulation.makespan_s, use.finish_s);
    simulation.stages.push_back({});
    simulation.stages.back().forward_s = use.forward_s;
    simulation.stages.back().backward_s = use.backward_s;
  }
  for (simulate::StageSummary& stage : simulation.stages) {
    stage.idle_s = simulation.makespan_s - stage.forward_s - stage.backward_s;
  }
  return simulation;
}

simulate::Pipeline even(std::int64_t stages, std::int64_t microbatches,
                        model::Schedule schedule = model::Schedule::k1F1B) {
  return testing::line(
      stages, microbatches,
      std::vector<std::pair<double, double>>(static_cast<std::size_t>(stages), {1.0, 2.0}),
      schedule);
}

std::string drawn(const simulate::Pipeline& pipeline) {
  Html html;
  write_timeline(html, pipeline, simulated(pipeline));
  return html.str();
}

TEST(Timeline, ShortIterationsAreDrawnWhole) {
  const simulate::Pipeline pipeline = even(4, 8);
  const auto windows = windows_of(pipeline, simulated(pipeline));
  ASSERT_EQ(windows.size(), 1U);
  EXPECT_EQ(windows[0].begin_s, 0);
  EXPECT_EQ(windows[0].end_s, 33);  // (m + p - 1)(f + b)
}

TEST(Timeline, LongIterationsAreCutWherePhasesEnd) {
  const simulate::Pipeline pipeline = even(4, 200);
  const auto windows = windows_of(pipeline, simulated(pipeline));
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_DOUBLE_EQ(windows[0].end_s, 4 + 2 * 3);  // the last stage has begun, and two paces more
  EXPECT_DOUBLE_EQ(windows[1].length_s(), 9);
  EXPECT_DOUBLE_EQ(windows[2].end_s, 609);
  EXPECT_DOUBLE_EQ(windows[2].begin_s, 609 - 3 * 2 - 2 - 2 * 3);
  EXPECT_NE(drawn(pipeline).find("Left out: from 10.00 s to"), std::string::npos);
}

TEST(Timeline, GPipeIsCutAtItsTurn) {
  const simulate::Pipeline pipeline = even(4, 200, model::Schedule::kGPipe);
  const auto windows = windows_of(pipeline, simulated(pipeline));
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_DOUBLE_EQ(windows[1].begin_s + 4.5, 203);  // the last stage's last forward step ends
}

/// The steps of all stages are there, do not overlap, and are as long together as they take.
TEST(Timeline, StepsFillTheirTime) {
  for (std::uint64_t seed = 0; seed < testing::seeds(40); ++seed) {
    testing::Dice dice(seed);
    const std::int64_t stages = dice.between(1, 6);
    std::vector<std::pair<double, double>> steps;
    for (std::int64_t s = 0; s < stages; ++s) {
      steps.emplace_back(dice.between(1, 5), dice.between(1, 9));
    }
    const auto schedule = dice.pick({model::Schedule::k1F1B, model::Schedule::kGPipe});
    const auto pipeline = testing::line(stages, dice.between(1, 20), steps, schedule);
    const simulate::Simulation simulation = simulated(pipeline);
    const std::string markup = drawn(pipeline);
    const auto boxes = testing::rectangles(markup, "class=\"(forward|backward)");
    ASSERT_EQ(static_cast<std::int64_t>(boxes.size()), 2 * stages * pipeline.microbatches);
    double width = 0;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      width += boxes[i].width;
      for (std::size_t j = 0; j < i; ++j) ASSERT_FALSE(testing::overlap(boxes[i], boxes[j]));
    }
    double busy_s = 0;
    for (const simulate::StageSummary& stage : simulation.stages) {
      busy_s += stage.forward_s + stage.backward_s;
    }
    const double scale = 790 / simulation.makespan_s;
    EXPECT_NEAR(width, busy_s * scale, 0.01 * static_cast<double>(boxes.size()));
  }
}

TEST(Timeline, ManyStagesAreFoldedAndSaid) {
  const std::string markup = drawn(even(40, 2));
  EXPECT_NE(markup.find("… 20 more stages"), std::string::npos);
  EXPECT_NE(markup.find(">stage 40<"), std::string::npos);
  EXPECT_EQ(markup.find(">stage 20<"), std::string::npos);
}

}  // namespace
}  // namespace nestplan::report

#include "distributed/performance.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "nestplan/network/network.hpp"
#include "nestplan/util/errors.hpp"
#include "support/branching.hpp"

namespace nestplan::distributed {
namespace {

using solver::Grid;

/// `waves` waves of `width` downsets with rows of 50 cells at `depths` depths; every downset is
/// offered to 40 others.
TableSummary made_up(int waves, double width, std::int64_t depths) {
  TableSummary table;
  table.depths = depths;
  table.downsets = width * waves;
  for (int w = 0; w < waves; ++w) {
    Wave wave;
    wave.downsets = width;
    wave.targets = 4 * width;
    wave.walked = 100 * width;
    wave.priced = 40 * width;
    wave.near = 0.1;
    const auto by_depth = [&](double each) {
      std::vector<double> values(solver::at(depths + 1), each * width);
      values[0] = 0;
      return values;
    };
    wave.cells = by_depth(50);
    wave.prepared = by_depth(100);
    wave.segments = by_depth(80);
    wave.relaxed = by_depth(2000);
    table.waves.push_back(wave);
  }
  return table;
}

double serial_seconds(const TableSummary& table, const Machine& machine) {
  double seconds = 0;
  for (const Wave& wave : table.waves) {
    seconds += wave.walked * machine.step_s + wave.priced * machine.price_s;
    for (std::size_t s = 1; s < wave.cells.size(); ++s) {
      seconds += wave.prepared[s] * machine.prepared_cell_s + wave.segments[s] * machine.segment_s +
                 wave.relaxed[s] * machine.cell_s;
    }
  }
  return seconds;
}

std::vector<Grid> some_grids() {
  return {{1, 1}, {2, 1}, {1, 2}, {3, 2}, {7, 1}, {16, 4}, {64, 1}, {8, 30}, {512, 8}};
}

TEST(Performance, OneRankTakesTheSumOfItsWork) {
  const TableSummary table = made_up(20, 30, 12);
  const Prediction alone = predict(table, {1, 1}, measured_machine());
  EXPECT_NEAR(alone.seconds, serial_seconds(table, measured_machine()), 1e-9 * alone.seconds);
  EXPECT_EQ(alone.messages, 0);
  EXPECT_EQ(alone.gather_s, 0);
  EXPECT_NEAR(alone.uneven_s, 0, 1e-9 * alone.seconds);
}

TEST(Performance, NeverBetterThanAnEvenSplitOfSharedWork) {
  const TableSummary table = made_up(20, 30, 12);
  const Machine machine = assumed_cluster();
  const double shared = predict(table, {1, 1}, machine).work_s;
  for (const Grid grid : some_grids()) {
    const Prediction p = predict(table, grid, machine);
    EXPECT_GE(p.work_s, shared / grid.size() * (1 - 1e-9)) << grid.downsets << "x" << grid.stages;
    EXPECT_GE(p.seconds, p.work_s) << grid.downsets << "x" << grid.stages;
  }
}

TEST(Performance, PartsAddUp) {
  const TableSummary table = made_up(20, 30, 12);
  for (const Grid grid : some_grids()) {
    const Prediction p = predict(table, grid, assumed_cluster());
    EXPECT_NEAR(p.work_s + p.redundant_s + p.gather_s + p.uneven_s, p.seconds, 0.02 * p.seconds)
        << grid.downsets << "x" << grid.stages;
  }
}

TEST(Performance, SharesOfManyDownsetsAreNearlyEven) {
  const TableSummary table = made_up(10, 4096, 12);
  const Machine machine = measured_machine();
  const Prediction p = predict(table, {4, 1}, machine);
  EXPECT_NEAR(p.seconds, p.work_s + p.redundant_s, 0.02 * p.seconds);
}

TEST(Performance, NarrowWavesDoNotScale) {
  const TableSummary chain = made_up(500, 1, 2);
  const Machine machine = assumed_cluster();
  EXPECT_GT(predict(chain, {256, 1}, machine).seconds, predict(chain, {4, 1}, machine).seconds);
}

TEST(Performance, DearerMessagesTakeLonger) {
  const TableSummary table = made_up(20, 200, 12);
  Machine slow = assumed_cluster();
  slow.ranks_per_node = 1;
  Machine slower = slow;
  slower.between.latency_s *= 1000;
  slower.between.gap_s_per_byte *= 100;
  for (const Grid grid : {Grid{8, 1}, Grid{1, 4}, Grid{8, 4}}) {
    EXPECT_GT(predict(table, grid, slower).seconds, predict(table, grid, slow).seconds);
  }
}

TEST(Performance, RanksBeyondTheCoresTakeTurns) {
  const TableSummary table = made_up(20, 4096, 12);
  Machine two = measured_machine();
  two.cores = 2;
  const double on_two = predict(table, {2, 1}, two).seconds;
  const double on_eight = predict(table, {8, 1}, two).seconds;
  EXPECT_GE(on_eight, on_two);
  EXPECT_LE(on_eight, 1.5 * on_two);
}

TEST(Performance, MemoryOfARankFalls) {
  const TableSummary table = made_up(200, 4096, 12);
  const Machine machine = assumed_cluster();
  double before = predict(table, {1, 1}, machine).bytes;
  EXPECT_GE(before, 8 * table.cells());
  for (int ranks = 2; ranks <= 64; ranks *= 2) {
    const double shares = predict(table, {ranks, 1}, machine).bytes;
    EXPECT_LT(shares, before) << ranks;
    before = shares;
  }
  EXPECT_LT(predict(table, {1, 4}, machine).bytes, predict(table, {1, 2}, machine).bytes);
}

TEST(Performance, MachinesAreReadAsTheyAreWritten) {
  Machine machine = assumed_cluster();
  machine.cores = 12;
  machine.step_s = 1.25e-9;
  std::stringstream text;
  write(text, machine);
  const std::string once = text.str();
  std::stringstream again;
  write(again, read_machine(text));
  EXPECT_EQ(again.str(), once);
}

TEST(Performance, OtherConstantsAreRefused) {
  for (const char* text : {"cell_s", "cell_s x", "cell_s -1", "sell_s 1", "within.gap 1"}) {
    std::stringstream in(text);
    EXPECT_THROW(read_machine(in), InvalidInput) << text;
  }
}

TEST(Sweep, ScalesUntilVisitsOrTheBoardRunOut) {
  SweepSummary sweep;
  sweep.configurations = 20000;
  sweep.visits = 20000;
  sweep.visit_s = 0.04;
  sweep.longest_visit_s = 0.5;
  sweep.serial_s = 0.1;
  sweep.look_s = 0.01;
  const Machine machine = assumed_cluster();
  const double alone = predict_sweep(sweep, 1, machine).seconds;
  EXPECT_NEAR(alone, 20000 * (0.04 + machine.configuration_s) + 0.1, 1e-6 * alone);
  const double ten = predict_sweep(sweep, 10, machine).seconds;
  EXPECT_GT(ten, alone / 10);
  EXPECT_LT(ten, 1.3 * alone / 10);
  // Who waits for the board long does not scale, but for the rank that keeps it.
  SweepSummary busy = sweep;
  busy.look_s = 0.08;
  EXPECT_NEAR(predict_sweep(busy, 2, machine).seconds, alone / 1.5, 0.05 * alone);
  // No faster than the longest visit, nor than the board answers.
  const double many = predict_sweep(sweep, 1000000, machine).seconds;
  EXPECT_GE(many, 0.5 * sweep.longest_visit_s);
  EXPECT_GE(many, sweep.visits * 3 * machine.between.overhead_s);
}

/// A table of a graph with branches, as the search would fill it, and its summary.
struct Counted {
  double relaxed = 0, cells = 0, bytes = 0;
  TableSummary summary, sampled;
};

Counted count(int branches, int length, std::uint64_t seed, double slack) {
  model::Problem problem = testing::branching(branches, length, seed);
  problem.options.dp = {2};
  problem.options.per_stage_strategies = true;
  const auto network = network::make_network(problem.cluster);
  const solver::Instance instance(problem, *network, solver::Lattice::enumerate(problem.graph));
  solver::ConfigurationSpace space(instance);
  const std::vector<solver::Configuration> configurations = space.list();
  const solver::Configuration& configuration = configurations.front();
  const std::vector<std::int64_t> depths = space.depths(configuration);
  solver::ClassCache classes(instance);
  const solver::Placement placement(instance, configuration, classes);
  const solver::PortLayers layers(instance, placement, depths);
  const solver::DepthBounds bounds(instance, configuration, placement.floor());
  solver::TableLimits limits{0, solver::kNever, true};
  for (const std::int64_t p : depths) {
    limits.stage = std::max(limits.stage, slack * bounds.at_depth(p).bottleneck);
  }
  solver::SoloTeam alone;
  solver::Table table(instance, placement, layers, depths, solver::Combine::kBottleneck, limits,
                      alone);
  EXPECT_TRUE(table.fill({}));
  constexpr std::int64_t kAll = std::numeric_limits<std::int32_t>::max();
  return {static_cast<double>(table.relaxations()), static_cast<double>(table.capacity()),
          table.bytes_per_rank(), summarise(instance, placement, layers, depths, limits, kAll),
          summarise(instance, placement, layers, depths, limits, 64)};
}

TEST(Summary, CountsWhatATableDoes) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    for (const double slack : {1.2, 2.0}) {
      const Counted counted = count(3, 7, seed, slack);
      ASSERT_GT(counted.relaxed, 0);
      // The room of a table follows from the floors alone: exact. What is alive does not.
      EXPECT_DOUBLE_EQ(counted.summary.cells(), counted.cells) << seed;
      EXPECT_GE(counted.summary.relaxed(), 0.9 * counted.relaxed) << seed << " " << slack;
      EXPECT_LE(counted.summary.relaxed(), 8 * counted.relaxed) << seed << " " << slack;
      const double bytes = predict(counted.summary, {1, 1}, measured_machine()).bytes;
      EXPECT_NEAR(bytes, counted.bytes, 0.25 * counted.bytes) << seed;
    }
  }
}

TEST(Summary, AFewWalksStandForAll) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Counted counted = count(3, 7, seed, 1.5);
    const double all = counted.summary.relaxed();
    EXPECT_NEAR(counted.sampled.relaxed(), all, 0.4 * all) << seed;
    EXPECT_DOUBLE_EQ(counted.sampled.cells(), counted.summary.cells());
  }
}

}  // namespace
}  // namespace nestplan::distributed

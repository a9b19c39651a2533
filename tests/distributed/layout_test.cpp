#include "distributed/layout.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "nestplan/network/network.hpp"
#include "nestplan/util/errors.hpp"
#include "support/branching.hpp"
#include "support/random_problem.hpp"

namespace nestplan::distributed {
namespace {

TEST(ParseLayout, ReadsThreeNumbers) {
  const RankLayout layout = parse_layout("2x3x1", 6);
  EXPECT_EQ(layout.groups, 2);
  EXPECT_EQ(layout.team.downsets, 3);
  EXPECT_EQ(layout.team.stages, 1);
}

TEST(ParseLayout, RefusesWhatIsNotALayout) {
  for (const char* text : {"", "2", "2x3", "2x3x", "2x3x1x1", "ax1x1", "0x1x6", "-2x3x-1", "2X3X1",
                           "99999999999x1x1", "2x3x1 "}) {
    EXPECT_THROW(parse_layout(text, 6), InvalidConfig) << text;
  }
}

TEST(ParseLayout, NamesTheNumberOfRanks) {
  try {
    parse_layout("2x2x1", 6);
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_STREQ(error.what(), "--grid: 2x2x1 is 4 ranks, but there are 6");
  }
}

/// A search whose layout is chosen.
class Chosen {
 public:
  explicit Chosen(model::Problem problem)
      : problem_(std::move(problem)),
        network_(network::make_network(problem_.cluster)),
        instance_(problem_, *network_, solver::Lattice::enumerate(problem_.graph)) {}

  RankLayout layout(int ranks, double bytes = std::numeric_limits<double>::infinity()) const {
    const RankLayout chosen = choose_layout(instance_, ranks, bytes);
    EXPECT_EQ(chosen.groups * chosen.team.size(), ranks);
    return chosen;
  }

  std::int64_t configurations() const {
    return static_cast<std::int64_t>(solver::ConfigurationSpace(instance_).list().size());
  }

 private:
  model::Problem problem_;
  std::unique_ptr<network::Network> network_;
  solver::Instance instance_;
};

/// One configuration with a table worth a team: branches side by side, hundreds of devices.
model::Problem one_large_table() {
  model::Problem problem = testing::branching(3, 14, 1);
  problem.cluster.hierarchy().levels = {{"node", 4, 1e11, 1e-6, 1}, {"rack", 64, 1e10, 5e-6, 2}};
  problem.options.dp = {1};
  problem.options.dp_inner = {1};
  problem.options.micro_batches = {1};
  problem.options.per_stage_strategies = true;
  return problem;
}

TEST(ChooseLayout, ManySmallTablesGoToGroupsOfOne) {
  model::Problem problem = testing::branching(2, 4, 1);
  const Chosen chosen(problem);
  ASSERT_GT(chosen.configurations(), 4);
  for (const int ranks : {1, 2, 3, 4}) {
    const RankLayout layout = chosen.layout(ranks);
    EXPECT_EQ(layout.groups, ranks);
    EXPECT_EQ(layout.team.size(), 1);
  }
}

TEST(ChooseLayout, FewConfigurationsLeaveNoGroupIdle) {
  model::Problem problem = testing::branching(2, 4, 1);
  problem.options.dp = {1};
  problem.options.dp_inner = {1};
  problem.options.tp = {1};
  const Chosen chosen(problem);
  for (const int ranks : {2, 3, 7, 12}) {
    EXPECT_LE(chosen.layout(ranks).groups, std::max<std::int64_t>(1, chosen.configurations()));
  }
}

TEST(ChooseLayout, ALargeTableGoesToEverybody) {
  const Chosen chosen(one_large_table());
  ASSERT_EQ(chosen.configurations(), 1);
  for (const int ranks : {2, 3, 4, 7, 8, 64}) {
    EXPECT_EQ(chosen.layout(ranks).groups, 1) << ranks;
  }
  // The downsets of a wave are shared first.
  EXPECT_EQ(chosen.layout(2).team.downsets, 2);
  EXPECT_EQ(chosen.layout(4).team.downsets, 4);
}

TEST(ChooseLayout, LittleMemoryMakesLargerTeams) {
  model::Problem problem = one_large_table();
  problem.options.dp = {1, 2, 4};
  problem.options.dp_inner = {1, 2};
  const Chosen chosen(problem);
  const int before = chosen.layout(4).team.size();
  EXPECT_GE(chosen.layout(4, 1e3).team.size(), before);
  EXPECT_EQ(chosen.layout(4, 1e3).team.size(), 4) << "nothing fits: what needs least";
}

TEST(ChooseLayout, EveryRandomProblemGetsOne) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Chosen chosen(testing::random_problem(seed));
    for (const int ranks : {1, 2, 5, 6}) {
      chosen.layout(ranks);
      chosen.layout(ranks, 1e4);
    }
  }
}

}  // namespace
}  // namespace nestplan::distributed

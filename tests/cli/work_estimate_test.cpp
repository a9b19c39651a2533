#include "cli/work_estimate.hpp"

#include <gtest/gtest.h>

namespace nestplan::cli {
namespace {

model::Problem chain(int layers, std::int64_t fanout, std::int64_t batch) {
  model::Problem problem;
  problem.graph.strategies.push_back({"s"});
  for (int i = 0; i < layers; ++i) {
    problem.graph.layers.push_back({"l" + std::to_string(i), {model::LayerCost{}}});
    if (i > 0) problem.graph.edges.push_back({i - 1, i, {0}});
  }
  problem.cluster.hierarchy().levels.push_back({"l", fanout, 1, 0, 1});
  problem.options.global_batch = batch;
  return problem;
}

TEST(WorkEstimate, CountsConfigurationsAndPairsOfDownsets) {
  EXPECT_EQ(estimated_work(chain(4, 8, 12)), 5 * 25);  // dp 1, 2, 3, 4, 6
  EXPECT_EQ(estimated_work(chain(4, 1, 12)), 1 * 25);
}

TEST(WorkEstimate, GrowsWithEverything) {
  const double base = estimated_work(chain(4, 8, 12));
  EXPECT_GT(estimated_work(chain(8, 8, 12)), base);
  EXPECT_GT(estimated_work(chain(4, 16, 12)), base);
  model::Problem uneven = chain(4, 8, 12);
  uneven.options.allow_uneven_batch = true;
  EXPECT_GT(estimated_work(uneven), base);
  model::Problem loose = chain(4, 8, 12);
  loose.graph.edges.clear();
  EXPECT_GT(estimated_work(loose), base);
}

TEST(WorkEstimate, GivesUpOnGraphsWithTooManyDownsets) {
  model::Problem wide = chain(60, 8, 12);
  wide.graph.edges.clear();
  EXPECT_EQ(estimated_work(wide), 5 * 2e6 * 2e6);
}

}  // namespace
}  // namespace nestplan::cli

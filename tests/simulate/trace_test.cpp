#include "nestplan/simulate/trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "simulate/line.hpp"
#include "support/small_case.hpp"

namespace nestplan::simulate {
namespace {

TEST(Trace, HoldsEveryStepInMicroseconds) {
  Pipeline pipeline = testing::line(2, 4, {{1, 2}, {1, 2}, {1, 2}, {1, 2}});
  pipeline.kinds[0].forward[1].seconds = 0.25;
  pipeline.kinds[0].pods = 3;
  pipeline.sync_s = {1, 2};
  pipeline.tie_s = {0, 0.5};
  testing::SmallCase c({testing::SmallCase::level(2, 10)});
  const Simulation simulation =
      simulate(pipeline, *network::make_network(c.problem.cluster), model::Plan{});
  std::ostringstream text;
  write_trace(pipeline, simulation, text);
  const auto trace = nlohmann::json::parse(text.str());
  std::map<std::string, int> count;
  double end = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    ASSERT_EQ(event["ph"], "X");
    ++count[event["name"].get<std::string>()];
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(count,
            (std::map<std::string, int>{
                {"forward", 16}, {"backward", 16}, {"receive", 4}, {"sync", 2}, {"tie", 2}}));
  EXPECT_NEAR(end, simulation.makespan_s * 1e6, 1);
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "3 pods like pod 0");
}

}  // namespace
}  // namespace nestplan::simulate

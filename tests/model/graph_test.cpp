#include "nestplan/model/graph.hpp"

#include <gtest/gtest.h>

#include "nestplan/model/cluster.hpp"
#include "nestplan/model/names.hpp"
#include "util/expect_error.hpp"

namespace nestplan::model {
namespace {

using test::expect_contains;
using test::message_of;

Graph graph_of(const std::vector<std::string>& layers,
               const std::vector<std::pair<int, int>>& edges) {
  Graph graph;
  graph.strategies.emplace_back().id = "a";
  for (const std::string& id : layers) graph.layers.push_back({id, {LayerCost{}}});
  for (const auto& [from, to] : edges) graph.edges.push_back({from, to, {0.0}});
  return graph;
}

TEST(TopologicalOrder, TiesGoByIndex) {
  EXPECT_EQ(topological_order(graph_of({"a", "b", "c"}, {})), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(topological_order(graph_of({"a", "b", "c", "d"}, {{3, 0}, {0, 1}, {3, 2}})),
            (std::vector<int>{3, 0, 1, 2}));
}

TEST(TopologicalOrder, NamesALayerOnTheCycle) {
  // "before" and "after" hang on the cycle but are not on it
  const Graph graph = graph_of({"after", "x", "y", "before"}, {{3, 1}, {1, 2}, {2, 1}, {2, 0}});
  const std::string message = message_of([&] { topological_order(graph); });
  EXPECT_TRUE(message == "layer \"x\" is on a cycle" || message == "layer \"y\" is on a cycle")
      << message;
}

TEST(QuantiseCounts, RoundsUpToMultiplesOf1024ths) {
  Graph graph = graph_of({"a", "b"}, {{0, 1}});
  LayerCost& cost = *graph.layers[0].costs[0];
  cost.forward_s = 0.1;
  cost.parameters = 0.1;
  cost.activation_bytes = 3;
  cost.checkpoint_bytes = 1e17;
  cost.collectives.push_back(
      {Phase::kForward, CollectiveOp::kAllReduce, GroupKind::kTensor, 0.5001});
  graph.edges[0].bytes[0] = 1.0 / 1024;
  quantise_counts(graph);
  EXPECT_EQ(cost.forward_s, 0.1) << "times stay";
  EXPECT_EQ(cost.parameters, 103.0 / 1024);
  EXPECT_EQ(cost.activation_bytes, 3);
  EXPECT_EQ(cost.checkpoint_bytes, 1e17);
  EXPECT_EQ(cost.collectives[0].bytes, 513.0 / 1024);
  EXPECT_EQ(graph.edges[0].bytes[0], 1.0 / 1024);
}

TEST(Cluster, DevicesIsTheProductOfFanouts) {
  Cluster cluster;
  for (const std::int64_t fanout : {8, 4, 32}) {
    cluster.hierarchy().levels.emplace_back().fanout = fanout;
  }
  EXPECT_EQ(cluster.devices(), 1024);
  for (NetworkLevel& level : cluster.hierarchy().levels) level.fanout = std::int64_t{1} << 31;
  expect_contains(message_of([&] { static_cast<void>(cluster.devices()); }), "64 bits");
}

template <class Enum>
void expect_round_trip(const std::vector<std::string>& names, Enum (*parse)(std::string_view)) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Enum value = parse(names[i]);
    EXPECT_EQ(static_cast<std::size_t>(value), i);
    EXPECT_EQ(to_string(value), names[i]);
  }
  const std::string message = message_of([&] { parse("no such name"); });
  for (const std::string& name : names) expect_contains(message, name);
  message_of([&] { parse(""); });
}

TEST(Names, RoundTripAndListThemselves) {
  expect_round_trip(collective_op_names(), parse_collective_op);
  expect_round_trip(phase_names(), parse_phase);
  expect_round_trip(group_kind_names(), parse_group_kind);
  expect_round_trip(objective_names(), parse_objective);
  expect_round_trip(schedule_names(), parse_schedule);
  expect_round_trip(recompute_names(), parse_recompute);
  expect_round_trip(status_names(), parse_status);
}

TEST(Names, AreThoseOfTheFileFormats) {
  EXPECT_EQ(parse_collective_op("reduce_scatter"), CollectiveOp::kReduceScatter);
  EXPECT_EQ(parse_collective_op("all_to_all"), CollectiveOp::kAllToAll);
  EXPECT_EQ(parse_group_kind("ep"), GroupKind::kExpert);
  EXPECT_EQ(parse_schedule("gpipe"), Schedule::kGPipe);
  EXPECT_EQ(parse_objective("paper"), Objective::kPaper);
  EXPECT_EQ(parse_status("infeasible"), Status::kInfeasible);
}

}  // namespace
}  // namespace nestplan::model

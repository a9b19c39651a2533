#include "support/oracle.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "nestplan/util/errors.hpp"

namespace nestplan::testing {
namespace {

using Json = nlohmann::json;

/// A quantity like "12.5 GB/s" in SI units.
double quantity(const Json& value) {
  static const std::map<std::string, double> kUnits{
      {"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"GB/s", 1e9}, {"us", 1e-6}, {"s", 1}};
  std::istringstream in(value.get<std::string>());
  double number = 0;
  std::string unit;
  in >> number >> unit;
  const auto known = kUnits.find(unit);
  if (known == kUnits.end()) throw InvalidInput("oracle: unknown unit \"" + unit + "\"");
  return number * known->second;
}

template <typename T>
T one_of(const std::string& word, const std::map<std::string, T>& words) {
  const auto known = words.find(word);
  if (known == words.end()) throw InvalidInput("oracle: unknown word \"" + word + "\"");
  return known->second;
}

model::Collective collective(const Json& json) {
  model::Collective c;
  c.phase = one_of<model::Phase>(json.at("phase"), {{"forward", model::Phase::kForward},
                                                    {"backward", model::Phase::kBackward}});
  c.op = one_of<model::CollectiveOp>(json.at("op"),
                                     {{"all_reduce", model::CollectiveOp::kAllReduce},
                                      {"all_gather", model::CollectiveOp::kAllGather},
                                      {"reduce_scatter", model::CollectiveOp::kReduceScatter},
                                      {"all_to_all", model::CollectiveOp::kAllToAll}});
  c.group = one_of<model::GroupKind>(json.at("group"), {{"tp", model::GroupKind::kTensor},
                                                        {"cp", model::GroupKind::kContext},
                                                        {"ep", model::GroupKind::kExpert},
                                                        {"dp", model::GroupKind::kData}});
  c.bytes = json.at("bytes");
  return c;
}

int index_of(const model::Graph& graph, const std::string& layer) {
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    if (graph.layers[i].id == layer) return static_cast<int>(i);
  }
  throw InvalidInput("oracle: unknown layer \"" + layer + "\"");
}

int strategy_of(const model::Graph& graph, const std::string& id) {
  for (std::size_t i = 0; i < graph.strategies.size(); ++i) {
    if (graph.strategies[i].id == id) return static_cast<int>(i);
  }
  throw InvalidInput("oracle: unknown strategy \"" + id + "\"");
}

void read_edges(const Json& json, model::Graph& graph) {
  for (const Json& item : json.at("edges")) {
    model::Edge edge;
    edge.from = index_of(graph, item.at("from"));
    edge.to = index_of(graph, item.at("to"));
    const Json& bytes = item.at("bytes");
    for (const model::Strategy& s : graph.strategies) {
      edge.bytes.push_back(bytes.is_object() ? bytes.at(s.id).get<double>() : bytes.get<double>());
    }
    graph.edges.push_back(edge);
  }
}

double incoming_bytes(const model::Graph& graph, std::size_t layer, std::size_t strategy) {
  double sum = 0;
  for (const model::Edge& edge : graph.edges) {
    if (static_cast<std::size_t>(edge.to) == layer) sum += edge.bytes[strategy];
  }
  return sum;
}

model::LayerCost layer_cost(const Json& json, double default_checkpoint) {
  model::LayerCost cost;
  cost.forward_s = json.at("forward_s");
  cost.backward_s = json.at("backward_s");
  cost.parameters = json.at("parameters");
  cost.expert_parameters = json.value("expert_parameters", 0.0);
  cost.activation_bytes = json.at("activation_bytes");
  cost.checkpoint_bytes = json.value("checkpoint_bytes", default_checkpoint);
  for (const Json& c : json.at("collectives")) cost.collectives.push_back(collective(c));
  return cost;
}

model::Graph read_graph(const Json& json) {
  model::Graph graph;
  graph.name = json.at("name");
  for (const Json& item : json.at("strategies")) {
    model::Strategy s;
    s.id = item.at("id");
    s.tp = item.at("tp");
    s.cp = item.value("cp", std::int64_t{1});
    s.ep = item.value("ep", std::int64_t{1});
    s.micro_batch = item.at("micro_batch");
    graph.strategies.push_back(s);
  }
  for (const Json& item : json.at("layers")) graph.layers.push_back({item.at("id"), {}});
  read_edges(json, graph);
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    const Json& costs = json.at("layers")[i].at("costs");
    for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
      const auto column = costs.find(graph.strategies[s].id);
      if (column == costs.end() || column->empty()) {
        graph.layers[i].costs.emplace_back();
      } else {
        graph.layers[i].costs.emplace_back(layer_cost(*column, incoming_bytes(graph, i, s)));
      }
    }
  }
  return graph;
}

model::Cluster read_cluster(const Json& json) {
  model::Cluster cluster;
  cluster.name = json.at("name");
  cluster.device.name = json.at("device").at("name");
  cluster.device.memory_bytes = quantity(json.at("device").at("memory"));
  cluster.device.reserved_bytes = quantity(json.at("device").at("reserved"));
  cluster.hierarchy().collectives = json.at("network").at("collectives");
  for (const Json& item : json.at("network").at("levels")) {
    model::NetworkLevel level;
    level.name = item.at("name");
    level.fanout = item.at("fanout");
    level.bandwidth = quantity(item.at("bandwidth"));
    level.latency_s = quantity(item.at("latency"));
    level.oversubscription = item.at("oversubscription");
    cluster.hierarchy().levels.push_back(level);
  }
  return cluster;
}

model::Recompute recompute_of(const std::string& word) {
  return one_of<model::Recompute>(
      word, {{"none", model::Recompute::kNone}, {"full", model::Recompute::kFull}});
}

void read_options(const Json& json, model::PlanOptions& options) {
  options.allow_uneven_batch = json.at("uneven");
  options.schedule = one_of<model::Schedule>(
      json.at("schedule"), {{"1f1b", model::Schedule::k1F1B}, {"gpipe", model::Schedule::kGPipe}});
  options.recompute.clear();
  for (const Json& word : json.at("recompute")) options.recompute.push_back(recompute_of(word));
  std::sort(options.recompute.begin(), options.recompute.end());
  options.zero = json.at("zero").get<std::vector<int>>();
  std::sort(options.zero.begin(), options.zero.end());
  const Json& state = json.at("state");
  options.state_bytes = {state.at(0), state.at(1), state.at(2)};
}

OracleAnswer answer(const std::string& key, const Json& value, const Json& plans,
                    const model::Graph& graph) {
  OracleAnswer out;
  out.objective = key.starts_with("paper") ? model::Objective::kPaper : model::Objective::k1F1B;
  out.per_stage = key.ends_with("per_stage");
  if (value.is_null()) return out;
  out.iteration_time_s = value.get<double>();
  const Json& plan = plans.at(key);
  out.micro_batch = plan.at("mbs");
  out.microbatches = plan.at("m");
  out.plan.dp = plan.at("dp");
  out.plan.dp_inner = plan.at("dp_inner");
  for (const Json& item : plan.at("stages")) {
    cost::PlacedStage stage;
    for (const Json& id : item.at(0)) stage.layers.push_back(index_of(graph, id));
    std::sort(stage.layers.begin(), stage.layers.end());
    stage.strategy = strategy_of(graph, item.at(1));
    stage.position = item.at(2);
    stage.recompute = recompute_of(item.at(3));
    stage.zero = item.at(4);
    out.plan.stages.push_back(stage);
  }
  return out;
}

}  // namespace

std::optional<std::filesystem::path> oracle_directory() {
  const std::filesystem::path path =
      std::filesystem::path(NESTPLAN_SOURCE_DIR).parent_path() / "shared" / "oracle";
  if (!std::filesystem::is_directory(path)) return std::nullopt;
  return path;
}

std::vector<OracleInstance> load_oracle(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw IoError("oracle: cannot read " + path.string());
  std::vector<OracleInstance> instances;
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line);
    OracleInstance instance;
    instance.name = path.stem().string() + "/" + std::to_string(json.at("seed").get<int>());
    instance.problem.graph = read_graph(json.at("graph"));
    instance.problem.cluster = read_cluster(json.at("cluster"));
    instance.problem.options.global_batch = json.at("batch");
    if (json.contains("options")) read_options(json.at("options"), instance.problem.options);
    for (const auto& [key, value] : json.at("expected").items()) {
      instance.answers.push_back(answer(key, value, json.at("plan"), instance.problem.graph));
    }
    instances.push_back(std::move(instance));
  }
  return instances;
}

}  // namespace nestplan::testing

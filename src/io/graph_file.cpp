#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "io/json.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::io {
namespace {

/// Names to indices, with a hint for names that are not there.
class Index {
 public:
  /// Adds the next name; `field` is where it stands and `list` what its kind is listed in.
  void add(const Field& field, std::string_view list) {
    const std::string name = field.identifier();
    const auto [previous, inserted] = indices_.emplace(name, names_.size());
    if (!inserted) {
      field.fail(fmt::format("{} is the id of {}[{}] already", util::quoted(name), list,
                             previous->second));
    }
    names_.push_back(name);
  }

  std::size_t find(const std::string& name, const Field& field, std::string_view what) const {
    const auto found = indices_.find(name);
    if (found == indices_.end()) {
      field.fail(
          fmt::format("unknown {} {}{}", what, util::quoted(name), util::hint(name, names_)));
    }
    return found->second;
  }

  const std::string& name(std::size_t index) const { return names_[index]; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> indices_;
};

constexpr std::array<std::pair<const char*, std::int64_t model::Dimensions::*>, 13> kDimensionKeys{
    {{"heads", &model::Dimensions::heads},
     {"kv_heads", &model::Dimensions::kv_heads},
     {"hidden", &model::Dimensions::hidden},
     {"ffn", &model::Dimensions::ffn},
     {"vocabulary", &model::Dimensions::vocabulary},
     {"sequence", &model::Dimensions::sequence},
     {"blocks", &model::Dimensions::blocks},
     {"experts", &model::Dimensions::experts},
     {"expert_ffn", &model::Dimensions::expert_ffn},
     {"encoder_blocks", &model::Dimensions::encoder_blocks},
     {"windows", &model::Dimensions::windows},
     {"sinks", &model::Dimensions::sinks},
     {"predictions", &model::Dimensions::predictions}}};

class GraphReader {
 public:
  explicit GraphReader(const Field& root) : root_(root) { root_.expect(graph_keys::kGraph); }

  model::Graph read() {
    graph_.name = root_.at("name").identifier();
    if (const auto provenance = root_.find("provenance")) provenance->text();
    graph_.tokens_per_sample = read_positive("tokens_per_sample", kMostCount);
    graph_.model_flops_per_sample = read_positive("model_flops_per_sample", kMostFlops);
    read_strategies();
    read_layers();
    read_edges();
    read_ties();
    read_dimensions();
    default_checkpoints();
    check_times();
    check_acyclic();
    model::quantise_counts(graph_);
    return std::move(graph_);
  }

 private:
  std::optional<double> read_positive(const std::string& key, double most) const {
    const auto field = root_.find(key);
    if (!field) return std::nullopt;
    const double value = field->number(most);
    if (value == 0) field->fail("must be more than 0");
    return value;
  }

  void read_strategies() {
    const Field list = root_.at("strategies");
    for (const Field& field : list.items()) {
      field.expect(graph_keys::kStrategy);
      strategies_.add(field.at("id"), "strategies");
      model::Strategy strategy;
      strategy.id = field.at("id").text();
      strategy.tp = field.at("tp").integer(1, kMostDegree);
      strategy.sp = read_sequence_parallel(field, strategy.tp);
      strategy.cp = read_degree(field, "cp");
      strategy.ep = read_degree(field, "ep");
      strategy.etp = read_degree(field, "etp");
      strategy.micro_batch = read_degree(field, "micro_batch");
      if (const auto form = field.find("context")) {
        strategy.context = form->named(model::parse_context_form);
      }
      graph_.strategies.push_back(std::move(strategy));
    }
    if (graph_.strategies.empty()) list.fail("must have at least one strategy");
    usable_.assign(graph_.strategies.size(), false);
  }

  static std::int64_t read_degree(const Field& strategy, const std::string& key) {
    const auto field = strategy.find(key);
    return field ? field->integer(1, kMostDegree) : 1;
  }

  /// A degree, or whether the tensor-parallel group also splits the sequence.
  static std::int64_t read_sequence_parallel(const Field& strategy, std::int64_t tp) {
    const auto field = strategy.find("sp");
    if (field && field->json().is_boolean()) return field->boolean() ? tp : 1;
    return read_degree(strategy, "sp");
  }

  void read_layers() {
    const Field list = root_.at("layers");
    for (const Field& field : list.items()) {
      field.expect(graph_keys::kLayer);
      layers_.add(field.at("id"), "layers");
      model::Layer layer{field.at("id").text(), read_costs(field.at("costs"))};
      if (const auto counted = field.find("counted")) layer.counted = counted->boolean();
      graph_.layers.push_back(std::move(layer));
    }
    if (graph_.layers.empty()) list.fail("must have at least one layer");
  }

  std::vector<std::optional<model::LayerCost>> read_costs(const Field& field) {
    std::vector<std::optional<model::LayerCost>> costs(graph_.strategies.size());
    has_checkpoint_.emplace_back(graph_.strategies.size(), false);
    bool any = false;
    for (const auto& [id, column] : field.members()) {
      const std::size_t strategy = strategies_.find(id, field, "strategy");
      if (column.json().is_object() && column.json().empty()) continue;
      costs[strategy] = read_cost(column);
      has_checkpoint_.back()[strategy] = column.find("checkpoint_bytes").has_value();
      usable_[strategy] = any = true;
    }
    if (!any) field.fail("the layer can use no strategy: give the costs of at least one");
    return costs;
  }

  static double read_count(const Field& column, const std::string& key) {
    const auto field = column.find(key);
    return field ? field->number(kMostCount) : 0;
  }

  static model::LayerCost read_cost(const Field& field) {
    field.expect(graph_keys::kCost);
    model::LayerCost cost;
    cost.forward_s = field.at("forward_s").number(kMostSeconds);
    cost.backward_s = field.at("backward_s").number(kMostSeconds);
    cost.parameters = read_count(field, "parameters");
    cost.expert_parameters = read_count(field, "expert_parameters");
    cost.activation_bytes = read_count(field, "activation_bytes");
    cost.checkpoint_bytes = read_count(field, "checkpoint_bytes");
    cost.working_bytes = read_count(field, "working_bytes");
    read_selective(field, cost);
    cost.table_parameters = read_count(field, "table_parameters");
    if (cost.table_parameters > cost.parameters) {
      field.at("table_parameters").fail("is more than all parameters of the layer");
    }
    if (const auto collectives = field.find("collectives")) {
      for (const Field& item : collectives->items()) cost.collectives.push_back(read_step(item));
    }
    return cost;
  }

  static void read_selective(const Field& field, model::LayerCost& cost) {
    const auto bytes = field.find("selective_bytes");
    const auto seconds = field.find("selective_s");
    if (seconds && !bytes) seconds->fail("needs selective_bytes beside it");
    if (!bytes) return;
    cost.selective_bytes = bytes->number(kMostCount);
    if (*cost.selective_bytes > cost.activation_bytes) {
      bytes->fail("is more than activation_bytes, which is kept without recomputation");
    }
    if (seconds) cost.selective_s = seconds->number(kMostSeconds);
  }

  static model::Collective read_step(const Field& field) {
    field.expect(graph_keys::kCollective);
    return {field.at("phase").named(model::parse_phase),
            field.at("op").named(model::parse_collective_op),
            field.at("group").named(model::parse_group_kind), field.at("bytes").number(kMostCount)};
  }

  void read_edges() {
    std::map<std::pair<std::size_t, std::size_t>, std::string> seen;
    for (const Field& field : root_.at("edges").items()) {
      field.expect(graph_keys::kEdge);
      const std::size_t from = layers_.find(field.at("from").text(), field.at("from"), "layer");
      const std::size_t to = layers_.find(field.at("to").text(), field.at("to"), "layer");
      if (from == to) {
        field.fail(fmt::format("leads from layer {} to itself", util::quoted(layers_.name(from))));
      }
      const auto [previous, inserted] = seen.emplace(std::pair{from, to}, field.path());
      if (!inserted) {
        field.fail(fmt::format("is the same edge as {}: {} to {}", previous->second,
                               util::quoted(layers_.name(from)), util::quoted(layers_.name(to))));
      }
      graph_.edges.push_back(
          {static_cast<int>(from), static_cast<int>(to), read_edge_bytes(field.at("bytes"))});
    }
  }

  /// Tensors that skip stages are relayed through stages of any strategy, so every strategy that
  /// some layer can use needs bytes on every edge.
  std::vector<double> read_edge_bytes(const Field& field) const {
    const std::size_t count = graph_.strategies.size();
    if (!field.json().is_object()) return std::vector<double>(count, field.number(kMostCount));
    std::vector<double> bytes(count, 0);
    std::vector<bool> given(count, false);
    for (const auto& [id, value] : field.members()) {
      const std::size_t strategy = strategies_.find(id, field, "strategy");
      bytes[strategy] = value.number(kMostCount);
      given[strategy] = true;
    }
    for (std::size_t s = 0; s < count; ++s) {
      if (usable_[s] && !given[s]) {
        field.fail(
            fmt::format("missing the bytes of strategy {}", util::quoted(strategies_.name(s))));
      }
    }
    return bytes;
  }

  /// Every layer of a tie holds the shared parameters: no fewer than they are.
  void read_ties() {
    const auto list = root_.find("ties");
    if (!list) return;
    for (const Field& field : list->items()) {
      field.expect(graph_keys::kTie);
      const Field layers = field.at("layers");
      model::Tie tie;
      for (const Field& item : layers.items()) {
        tie.layers.push_back(static_cast<int>(layers_.find(item.text(), item, "layer")));
      }
      std::sort(tie.layers.begin(), tie.layers.end());
      if (std::adjacent_find(tie.layers.begin(), tie.layers.end()) != tie.layers.end()) {
        layers.fail("names a layer twice");
      }
      if (tie.layers.size() < 2) layers.fail("must name at least two layers");
      tie.parameters = read_edge_bytes(field.at("parameters"));
      for (const int layer : tie.layers) {
        const auto& costs = graph_.layers[static_cast<std::size_t>(layer)].costs;
        for (std::size_t s = 0; s < costs.size(); ++s) {
          if (!costs[s] || tie.parameters[s] <= costs[s]->parameters) continue;
          field.at("parameters")
              .fail(fmt::format("are more than layer {} has under strategy {}",
                                util::quoted(layers_.name(static_cast<std::size_t>(layer))),
                                util::quoted(strategies_.name(s))));
        }
      }
      graph_.ties.push_back(std::move(tie));
    }
  }

  void read_dimensions() {
    const auto field = root_.find("dimensions");
    if (!field) return;
    field->expect(graph_keys::kDimensions);
    for (const auto& [key, member] : kDimensionKeys) {
      const auto value = field->find(key);
      if (value) graph_.dimensions.*member = value->integer(0, kMostDegree);
    }
    if (const auto kind = field->find("kind")) {
      graph_.dimensions.kind = kind->named(model::parse_model_kind);
    }
  }

  /// Columns without `checkpoint_bytes` were read as 0 and get the bytes of the incoming edges.
  void default_checkpoints() {
    for (const model::Edge& edge : graph_.edges) {
      const auto to = static_cast<std::size_t>(edge.to);
      for (std::size_t s = 0; s < graph_.strategies.size(); ++s) {
        auto& cost = graph_.layers[to].costs[s];
        if (cost && !has_checkpoint_[to][s]) cost->checkpoint_bytes += edge.bytes[s];
      }
    }
  }

  /// Layers that compute on what others put out take time; a lookup, at the beginning, may not. A
  /// profile with such a hole would make every plan look better than it is.
  void check_times() const {
    std::vector<bool> reads(graph_.layers.size(), false);
    for (const model::Edge& edge : graph_.edges) reads[static_cast<std::size_t>(edge.to)] = true;
    const std::vector<Field> fields = root_.at("layers").items();
    for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
      if (!reads[i]) continue;
      for (std::size_t s = 0; s < graph_.strategies.size(); ++s) {
        const auto& cost = graph_.layers[i].costs[s];
        const bool works = cost && cost->parameters + cost->expert_parameters > 0;
        if (!works || cost->forward_s > 0) continue;
        fields[i]
            .at("costs")
            .at(strategies_.name(s))
            .at("forward_s")
            .fail("is 0, but a layer with parameters that reads another one takes time");
      }
    }
  }

  void check_acyclic() const {
    try {
      model::topological_order(graph_);
    } catch (const InvalidInput& error) {
      root_.at("edges").fail(error.what());
    }
  }

  Field root_;
  model::Graph graph_;
  Index strategies_, layers_;
  std::vector<bool> usable_;                       ///< by strategy: some layer has costs for it
  std::vector<std::vector<bool>> has_checkpoint_;  ///< by layer and strategy
};

using Output = nlohmann::ordered_json;

Output strategy_to_json(const model::Strategy& strategy) {
  Output out{{"id", strategy.id},
             {"tp", strategy.tp},
             {"sp", strategy.sp},
             {"cp", strategy.cp},
             {"ep", strategy.ep},
             {"etp", strategy.etp},
             {"micro_batch", strategy.micro_batch}};
  if (strategy.cp > 1) out["context"] = model::to_string(strategy.context);
  return out;
}

Output cost_to_json(const model::LayerCost& cost) {
  Output collectives = Output::array();
  for (const model::Collective& step : cost.collectives) {
    collectives.push_back({{"phase", model::to_string(step.phase)},
                           {"op", model::to_string(step.op)},
                           {"group", model::to_string(step.group)},
                           {"bytes", number_to_json(step.bytes)}});
  }
  Output out{{"forward_s", number_to_json(cost.forward_s)},
             {"backward_s", number_to_json(cost.backward_s)},
             {"parameters", number_to_json(cost.parameters)},
             {"expert_parameters", number_to_json(cost.expert_parameters)},
             {"activation_bytes", number_to_json(cost.activation_bytes)},
             {"checkpoint_bytes", number_to_json(cost.checkpoint_bytes)},
             {"collectives", std::move(collectives)}};
  if (cost.selective_bytes) {
    out["selective_bytes"] = number_to_json(*cost.selective_bytes);
    out["selective_s"] = number_to_json(cost.selective_s);
  }
  if (cost.working_bytes > 0) out["working_bytes"] = number_to_json(cost.working_bytes);
  if (cost.table_parameters > 0) out["table_parameters"] = number_to_json(cost.table_parameters);
  return out;
}

Output layer_to_json(const model::Layer& layer, const std::vector<model::Strategy>& strategies) {
  Output costs = Output::object();
  for (std::size_t s = 0; s < strategies.size(); ++s) {
    if (layer.costs[s]) costs[strategies[s].id] = cost_to_json(*layer.costs[s]);
  }
  Output out{{"id", layer.id}, {"costs", std::move(costs)}};
  if (!layer.counted) out["counted"] = false;
  return out;
}

Output by_strategy(const std::vector<double>& values, const model::Graph& graph) {
  Output out = Output::object();
  for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
    out[graph.strategies[s].id] = number_to_json(values[s]);
  }
  return out;
}

Output tie_to_json(const model::Tie& tie, const model::Graph& graph) {
  Output layers = Output::array();
  for (const int layer : tie.layers) {
    layers.push_back(graph.layers[static_cast<std::size_t>(layer)].id);
  }
  return {{"layers", std::move(layers)}, {"parameters", by_strategy(tie.parameters, graph)}};
}

Output edge_to_json(const model::Edge& edge, const model::Graph& graph) {
  return {{"from", graph.layers[static_cast<std::size_t>(edge.from)].id},
          {"to", graph.layers[static_cast<std::size_t>(edge.to)].id},
          {"bytes", by_strategy(edge.bytes, graph)}};
}

model::Graph to_graph(const Document& document) {
  return GraphReader(document.root_of(kGraphFormat)).read();
}

}  // namespace

model::Graph read_graph(const std::filesystem::path& path) {
  return to_graph(Document::read(path));
}

model::Graph parse_graph(std::string_view text, const std::string& file) {
  return to_graph(Document(text, file));
}

std::string graph_to_json(const model::Graph& graph) {
  Output document{{"format", kGraphFormat}, {"name", graph.name}};
  if (graph.tokens_per_sample) {
    document["tokens_per_sample"] = number_to_json(*graph.tokens_per_sample);
  }
  if (graph.model_flops_per_sample) {
    document["model_flops_per_sample"] = number_to_json(*graph.model_flops_per_sample);
  }
  Output strategies = Output::array(), layers = Output::array(), edges = Output::array();
  for (const model::Strategy& strategy : graph.strategies) {
    strategies.push_back(strategy_to_json(strategy));
  }
  for (const model::Layer& layer : graph.layers) {
    layers.push_back(layer_to_json(layer, graph.strategies));
  }
  for (const model::Edge& edge : graph.edges) edges.push_back(edge_to_json(edge, graph));
  document["strategies"] = std::move(strategies);
  document["layers"] = std::move(layers);
  document["edges"] = std::move(edges);
  if (!graph.ties.empty()) {
    Output ties = Output::array();
    for (const model::Tie& tie : graph.ties) ties.push_back(tie_to_json(tie, graph));
    document["ties"] = std::move(ties);
  }
  Output dimensions = Output::object();
  for (const auto& [key, member] : kDimensionKeys) {
    if (graph.dimensions.*member > 0) dimensions[key] = graph.dimensions.*member;
  }
  if (graph.dimensions.kind != model::ModelKind::kOther) {
    dimensions["kind"] = to_string(graph.dimensions.kind);
  }
  if (!dimensions.empty()) document["dimensions"] = std::move(dimensions);
  return to_text(document);
}

}  // namespace nestplan::io

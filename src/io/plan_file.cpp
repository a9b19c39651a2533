#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "io/json.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::io {
namespace {

constexpr std::int64_t kMostWhole = 9007199254740991;  // 2^53 - 1

std::optional<std::int64_t> find_integer(const Field& parent, const std::string& key,
                                         std::int64_t least, std::int64_t most) {
  const auto field = parent.find(key);
  if (!field) return std::nullopt;
  return field->integer(least, most);
}

/// Results that are recomputed anyway: numbers, or null for what was not known.
void check_numbers(const Field& parent, const std::string& key, const KeySet& keys) {
  const auto field = parent.find(key);
  if (!field || field->is_null()) return;
  field->expect(keys);
  for (const auto& [name, value] : field->members()) {
    constexpr double kAnything = 1e300;
    if (!value.is_null()) value.number(kAnything);
  }
}

void check_same(const Field& parent, const std::string& key, std::int64_t expected,
                std::string_view reason) {
  const auto given = find_integer(parent, key, 1, kMostDevices);
  if (given && *given != expected) {
    parent.at(key).fail(fmt::format("is {}, but {} {}", *given, reason, expected));
  }
}

class PlanReader {
 public:
  PlanReader(const Field& root, const model::Graph& graph) : root_(root), graph_(graph) {
    for (std::size_t i = 0; i < graph.layers.size(); ++i) {
      layers_.emplace(graph.layers[i].id, static_cast<int>(i));
    }
  }

  model::PartialPlan read() {
    root_.expect(plan_keys::kPlan);
    check_results();
    check_not_empty();
    read_degrees(root_.at("strategy"));
    for (const Field& field : root_.at("stages").items()) read_stage(field);
    check_every_layer();
    check_same(root_.at("strategy"), "pp", static_cast<std::int64_t>(plan_.stages.size()),
               "the number of stages is");
    check_micro_batches();
    return std::move(plan_);
  }

 private:
  void check_results() const {
    for (const char* key : {"model", "cluster", "reason"}) {
      if (const auto field = root_.find(key)) field->text();
    }
    if (const auto status = root_.find("status")) status->named(model::parse_status);
    if (const auto objective = root_.find("objective")) objective->named(model::parse_objective);
    for (const char* key : {"iteration_time_s", "lower_bound_s", "gap"}) {
      const auto field = root_.find(key);
      if (field && !field->is_null()) field->number(kMostCount);
    }
    check_numbers(root_, "throughput", plan_keys::kThroughput);
    check_numbers(root_, "batch", plan_keys::kBatch);
    check_numbers(root_, "devices", plan_keys::kDevices);
    check_numbers(root_, "time_split", plan_keys::kTimeSplit);
    if (const auto search = root_.find("search")) check_search(*search);
  }

  static void check_search(const Field& search) {
    search.expect(plan_keys::kSearch);
    for (const auto& [key, value] : search.members()) {
      if (key != "rejected") {
        value.number(kMostCount);
        continue;
      }
      for (const auto& [reason, count] : value.members()) count.integer(0, kMostWhole);
    }
  }

  void check_not_empty() const {
    const Field stages = root_.at("stages");
    if (stages.items().empty()) stages.fail("must have at least one stage (this is not a plan)");
  }

  void read_degrees(const Field& field) {
    field.expect(plan_keys::kStrategy);
    plan_.dp = field.at("dp").integer(1, kMostDevices);
    plan_.dp_inner = find_integer(field, "dp_inner", 1, kMostDevices);
    if (const auto outer = find_integer(field, "dp_outer", 1, kMostDevices)) {
      derive_inner(field, *outer);
    }
    if (plan_.dp_inner && plan_.dp % *plan_.dp_inner != 0) {
      field.at("dp_inner")
          .fail(fmt::format("{} does not divide dp, which is {}", *plan_.dp_inner, plan_.dp));
    }
    if (const auto vpp = find_integer(field, "vpp", 1, kMostDevices); vpp.value_or(1) != 1) {
      field.at("vpp").fail(
          fmt::format("is {}, but interleaved schedules are not modelled: it must be 1", *vpp));
    }
    find_integer(field, "microbatches", 1, kMostWhole);
    if (const auto schedule = field.find("schedule")) {
      plan_.schedule = schedule->named(model::parse_schedule);
    }
  }

  void derive_inner(const Field& field, std::int64_t outer) {
    if (!plan_.dp_inner && plan_.dp % outer == 0) plan_.dp_inner = plan_.dp / outer;
    const std::int64_t product = plan_.dp_inner.value_or(1) * outer;  // both are below 2^31
    if (product == plan_.dp) return;
    if (!plan_.dp_inner) {
      field.at("dp_outer").fail(fmt::format("{} does not divide dp, which is {}", outer, plan_.dp));
    }
    field.at("dp_outer")
        .fail(fmt::format("dp_inner times dp_outer is {}, but dp is {}", product, plan_.dp));
  }

  void read_stage(const Field& field) {
    field.expect(plan_keys::kStage);
    model::PartialStage stage;
    stage.strategy = read_strategy(field.at("strategy"));
    stage.layers = read_layers(field.at("layers"), stage.strategy);
    stage.position = find_integer(field, "position", 0, kMostDevices);
    if (const auto recompute = field.find("recompute")) {
      stage.recompute = recompute->named(model::parse_recompute);
    }
    if (const auto zero = field.find("zero")) stage.zero = static_cast<int>(zero->integer(0, 3));
    check_degrees(field, stage.strategy);
    check_numbers(field, "time", plan_keys::kTime);
    check_numbers(field, "memory", plan_keys::kMemory);
    plan_.stages.push_back(std::move(stage));
  }

  int read_strategy(const Field& field) const {
    const std::string id = field.text();
    std::vector<std::string> known;
    for (std::size_t s = 0; s < graph_.strategies.size(); ++s) {
      if (graph_.strategies[s].id == id) return static_cast<int>(s);
      known.push_back(graph_.strategies[s].id);
    }
    field.fail(fmt::format("unknown strategy {}{}", util::quoted(id), util::hint(id, known)));
  }

  std::vector<int> read_layers(const Field& list, int strategy) {
    std::vector<int> layers;
    for (const Field& field : list.items()) {
      const int layer = read_layer(field);
      const auto [previous, inserted] = places_.emplace(layer, field.path());
      if (!inserted) {
        field.fail(
            fmt::format("layer {} is in {} already", util::quoted(field.text()), previous->second));
      }
      if (!graph_.layers[static_cast<std::size_t>(layer)]
               .costs[static_cast<std::size_t>(strategy)]) {
        field.fail(fmt::format("layer {} cannot use strategy {}", util::quoted(field.text()),
                               util::quoted(strategy_of(strategy).id)));
      }
      layers.push_back(layer);
    }
    if (layers.empty()) list.fail("must have at least one layer");
    std::sort(layers.begin(), layers.end());
    return layers;
  }

  int read_layer(const Field& field) const {
    const auto found = layers_.find(field.text());
    if (found != layers_.end()) return found->second;
    std::vector<std::string> known;
    for (const model::Layer& layer : graph_.layers) known.push_back(layer.id);
    field.fail(fmt::format("unknown layer {}{}", util::quoted(field.text()),
                           util::hint(field.text(), known)));
  }

  /// What is redundant must agree. The devices of a stage tell `dp_inner` when nothing else does.
  void check_degrees(const Field& field, int index) {
    const model::Strategy& strategy = strategy_of(index);
    const std::string reason = fmt::format("strategy {} has", util::quoted(strategy.id));
    check_same(field, "tp", strategy.tp, reason);
    check_same(field, "cp", strategy.cp, reason);
    check_same(field, "ep", strategy.ep, reason);
    const auto devices = find_integer(field, "devices", 1, kMostDevices);
    if (!devices) return;
    const std::int64_t split = strategy.tp * strategy.cp;
    if (!plan_.dp_inner) {
      if (*devices % split != 0 || plan_.dp % (*devices / split) != 0) {
        field.at("devices").fail(
            fmt::format("is {}, which is not tp times cp ({}) times a divisor of dp ({})", *devices,
                        split, plan_.dp));
      }
      plan_.dp_inner = *devices / split;
    }
    if (*devices % split != 0 || *devices / split != *plan_.dp_inner) {
      field.at("devices").fail(
          fmt::format("is {}, but tp times cp times dp_inner is {}", *devices,
                      static_cast<double>(split) * static_cast<double>(*plan_.dp_inner)));
    }
  }

  void check_every_layer() const {
    for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
      if (places_.count(static_cast<int>(i)) == 0) {
        root_.at("stages").fail(
            fmt::format("layer {} is in no stage", util::quoted(graph_.layers[i].id)));
      }
    }
  }

  void check_micro_batches() const {
    const std::int64_t expected = strategy_of(plan_.stages[0].strategy).micro_batch;
    const std::vector<Field> stages = root_.at("stages").items();
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      const model::Strategy& strategy = strategy_of(plan_.stages[i].strategy);
      if (strategy.micro_batch == expected) continue;
      stages[i]
          .at("strategy")
          .fail(fmt::format("{} is for micro-batches of {}, but the first stage's are of {}",
                            util::quoted(strategy.id), strategy.micro_batch, expected));
    }
    check_same(root_.at("strategy"), "micro_batch", expected, "the stages' strategies are for");
  }

  const model::Strategy& strategy_of(int index) const {
    return graph_.strategies[static_cast<std::size_t>(index)];
  }

  Field root_;
  const model::Graph& graph_;
  model::PartialPlan plan_;
  std::unordered_map<std::string, int> layers_;
  std::unordered_map<int, std::string> places_;  ///< by layer: the path of its first mention
};

using Output = nlohmann::ordered_json;

class PlanWriter {
 public:
  PlanWriter(const model::Plan& plan, const model::Graph& graph, const model::Cluster& cluster,
             std::optional<std::int64_t> global_batch)
      : plan_(plan), graph_(graph), cluster_(cluster), batch_(global_batch) {
    const model::PlanStrategy& strategy = plan.strategy;
    if (!batch_ && has_stages()) {
      batch_ = strategy.dp * strategy.micro_batch * strategy.microbatches;
    }
    for (const model::StagePlan& stage : plan.stages) used_ += stage.devices * strategy.dp_outer;
  }

  Output write() const {
    Output out{{"format", kPlanFormat}, {"status", model::to_string(plan_.status)}};
    if (plan_.status == model::Status::kInfeasible) out["reason"] = plan_.reason;
    out["objective"] = model::to_string(plan_.objective);
    out["model"] = graph_.name;
    out["cluster"] = cluster_.name;
    out["iteration_time_s"] = time(plan_.iteration_time_s);
    out["lower_bound_s"] = feasible() ? number_to_json(plan_.lower_bound_s) : Output();
    out["gap"] = feasible() ? number_to_json(plan_.gap) : Output();
    out["throughput"] = throughput();
    out["batch"] = batch();
    out["devices"] = devices();
    out["strategy"] = has_stages() ? strategy() : Output();
    out["stages"] = Output::array();
    for (const model::StagePlan& item : plan_.stages) out["stages"].push_back(stage(item));
    out["time_split"] = time_split();
    out["search"] = search();
    return out;
  }

 private:
  bool has_stages() const { return !plan_.stages.empty(); }
  bool feasible() const { return plan_.status != model::Status::kInfeasible; }

  /// An infeasible plan may be too broken to have times; 0 stands for that.
  Output time(double seconds) const {
    return feasible() || seconds > 0 ? number_to_json(seconds) : Output();
  }

  Output throughput() const {
    Output samples, tokens, tokens_per_device, tflops_per_device;
    if (feasible() && batch_ && plan_.iteration_time_s > 0) {
      const double rate = static_cast<double>(*batch_) / plan_.iteration_time_s;
      const auto devices = static_cast<double>(used_);
      samples = number_to_json(rate);
      if (const auto& length = graph_.tokens_per_sample) {
        tokens = number_to_json(rate * *length);
        tokens_per_device = number_to_json(rate * *length / devices);
      }
      if (const auto& flops = graph_.model_flops_per_sample) {
        tflops_per_device = number_to_json(rate * *flops / devices / 1e12);
      }
    }
    return {{"samples_per_s", samples},
            {"tokens_per_s", tokens},
            {"tokens_per_s_per_device", tokens_per_device},
            {"model_tflops_per_device", tflops_per_device}};
  }

  Output batch() const {
    Output sequences, tokens;
    if (batch_) sequences = *batch_;
    if (batch_ && graph_.tokens_per_sample) {
      tokens = number_to_json(static_cast<double>(*batch_) * *graph_.tokens_per_sample);
    }
    return {{"global_batch", sequences}, {"tokens", tokens}};
  }

  Output devices() const {
    const std::int64_t total = cluster_.devices();
    // a plan that is infeasible for want of devices uses more than there are
    const std::int64_t idle = std::max<std::int64_t>(total - used_, 0);
    return {{"total", total}, {"used", used_}, {"idle", idle}};
  }

  Output strategy() const {
    const model::PlanStrategy& s = plan_.strategy;
    return {{"dp", s.dp},
            {"dp_inner", s.dp_inner},
            {"dp_outer", s.dp_outer},
            {"pp", s.pp},
            {"vpp", s.vpp},
            {"micro_batch", s.micro_batch},
            {"microbatches", s.microbatches},
            {"schedule", model::to_string(s.schedule)}};
  }

  Output stage(const model::StagePlan& stage) const {
    Output layers = Output::array();
    for (const int layer : stage.layers) {
      layers.push_back(graph_.layers[static_cast<std::size_t>(layer)].id);
    }
    const auto& strategy = graph_.strategies[static_cast<std::size_t>(stage.strategy)];
    return {{"layers", std::move(layers)},
            {"strategy", strategy.id},
            {"tp", strategy.tp},
            {"cp", strategy.cp},
            {"ep", strategy.ep},
            {"position", stage.position},
            {"devices", stage.devices},
            {"recompute", model::to_string(stage.recompute)},
            {"zero", stage.zero},
            {"time", stage_time(stage.time)},
            {"memory",
             {{"total_bytes", number_to_json(stage.memory.total_bytes)},
              {"state_bytes", number_to_json(stage.memory.state_bytes)},
              {"activation_bytes", number_to_json(stage.memory.activation_bytes)}}}};
  }

  static Output stage_time(const model::StageTime& t) {
    return {{"total_s", number_to_json(t.total_s)},
            {"forward_s", number_to_json(t.forward_s)},
            {"backward_s", number_to_json(t.backward_s)},
            {"recompute_s", number_to_json(t.recompute_s)},
            {"receive_s", number_to_json(t.receive_s)},
            {"gradient_receive_s", number_to_json(t.gradient_receive_s)},
            {"zero_s", number_to_json(t.zero_s)},
            {"sync_s", number_to_json(t.sync_s)},
            {"collective_s", number_to_json(t.collective_s)}};
  }

  Output time_split() const {
    if (!feasible() && plan_.iteration_time_s <= 0) return {};
    const model::TimeSplit& split = plan_.split;
    // what is left for the bubble is a difference and may be a rounding error below zero
    return {{"compute_s", number_to_json(split.compute_s)},
            {"recompute_s", number_to_json(split.recompute_s)},
            {"collective_s", number_to_json(split.collective_s)},
            {"pipeline_s", number_to_json(split.pipeline_s)},
            {"data_parallel_s", number_to_json(split.data_parallel_s)},
            {"bubble_s", number_to_json(std::max(split.bubble_s, 0.0))}};
  }

  Output search() const {
    Output rejected = Output::object();
    for (const auto& [reason, count] : plan_.search.rejected) rejected[reason] = count;
    return {{"seconds", number_to_json(plan_.search.seconds)},
            {"ranks", plan_.search.ranks},
            {"configurations", plan_.search.configurations},
            {"tables", plan_.search.tables},
            {"cells", plan_.search.cells},
            {"rejected", std::move(rejected)}};
  }

  const model::Plan& plan_;
  const model::Graph& graph_;
  const model::Cluster& cluster_;
  std::optional<std::int64_t> batch_;
  std::int64_t used_ = 0;
};

model::PartialPlan to_plan(const Document& document, const model::Graph& graph) {
  return PlanReader(document.root_of(kPlanFormat), graph).read();
}

}  // namespace

model::PartialPlan read_plan(const std::filesystem::path& path, const model::Graph& graph) {
  return to_plan(Document::read(path), graph);
}

model::PartialPlan parse_plan(std::string_view text, const std::string& file,
                              const model::Graph& graph) {
  return to_plan(Document(text, file), graph);
}

std::string plan_to_json(const model::Plan& plan, const model::Graph& graph,
                         const model::Cluster& cluster, std::optional<std::int64_t> global_batch) {
  return to_text(PlanWriter(plan, graph, cluster, global_batch).write());
}

}  // namespace nestplan::io

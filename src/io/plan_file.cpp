#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/json.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/targets/overlap.hpp"
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
    check_chunks();
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
    if (const auto target = root_.find("target")) check_target(*target);
    check_numbers(root_, "vocabulary", plan_keys::kVocabulary);
    check_numbers(root_, "restart", plan_keys::kRestart);
    if (const auto placement = root_.find("placement")) {
      placement->expect(plan_keys::kPlacement);
      if (const auto kinds = placement->find("groups")) {
        for (const Field& kind : kinds->items()) kind.expect(plan_keys::kPlacedGroups);
      }
    }
    if (const auto shortfall = root_.find("shortfall")) shortfall->expect(plan_keys::kShortfall);
    if (const auto remarks = root_.find("remarks")) {
      for (const Field& remark : remarks->items()) remark.text();
    }
    check_answers();
    if (const auto search = root_.find("search")) check_search(*search);
  }

  /// What was asked beside the plan.
  void check_answers() const {
    if (const auto fewest = root_.find("fewest_devices")) {
      fewest->expect(plan_keys::kFewestDevices);
      const auto below = fewest->find("too_few");
      if (below && !below->is_null()) below->expect(plan_keys::kTooFew);
    }
    if (const auto changes = root_.find("what_if")) {
      for (const Field& change : changes->items()) {
        change.expect(plan_keys::kWhatIf).at("change").identifier();
      }
    }
    if (const auto top = root_.find("top")) {
      for (const Field& plan : top->items()) plan.expect(plan_keys::kTop);
    }
  }

  static void check_target(const Field& target) {
    target.expect(plan_keys::kTarget).at("name").identifier();
    if (const auto version = target.find("version")) version->text();
    const auto settings = target.find("settings");
    if (!settings) return;
    for (const Field& setting : settings->items()) {
      for (const auto& [key, value] : setting.expect(plan_keys::kSetting).members()) value.text();
    }
  }

  static void check_search(const Field& search) {
    search.expect(plan_keys::kSearch);
    for (const auto& [key, value] : search.members()) {
      if (key == "rejected") {
        for (const auto& [reason, count] : value.members()) count.integer(0, kMostWhole);
      } else if (key == "options") {
        for (const auto& [name, setting] : value.members()) {
          if (!setting.is_boolean()) setting.text();
        }
      } else {
        value.number(kMostCount);
      }
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
    vpp_ = find_integer(field, "vpp", 1, kMostDevices);
    find_integer(field, "microbatches", 1, kMostWhole);
    if (const auto schedule = field.find("schedule")) {
      plan_.schedule = schedule->named(model::parse_schedule);
    }
    if (const auto overlap = field.find("overlap")) check_overlap(*overlap);
  }

  static void check_overlap(const Field& field) {
    for (const auto& [name, share] : field.expect(plan_keys::kOverlap).members()) share.number(1);
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
    if (const auto shard = field.find("shard")) stage.shard = shard->named(model::parse_shard_span);
    if (const auto chunks = field.find("chunks")) stage.chunks = read_chunks(*chunks, stage.layers);
    check_degrees(field, stage.strategy);
    find_integer(field, "weight_gathers", 0, kMostWhole);
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

  /// The layers of every chunk: together those of the stage.
  std::vector<std::vector<int>> read_chunks(const Field& list, const std::vector<int>& of_stage) {
    std::vector<std::vector<int>> chunks;
    std::unordered_set<int> left(of_stage.begin(), of_stage.end());
    for (const Field& chunk : list.items()) {
      std::vector<int>& layers = chunks.emplace_back();
      for (const Field& field : chunk.items()) {
        layers.push_back(read_layer(field));
        if (left.erase(layers.back()) == 1) continue;
        const bool of_another =
            !std::binary_search(of_stage.begin(), of_stage.end(), layers.back());
        field.fail(fmt::format(
            "layer {} is {}", util::quoted(field.text()),
            of_another ? "not among the layers of the stage" : "in a chunk of the stage already"));
      }
      if (layers.empty()) chunk.fail("must have at least one layer");
      std::sort(layers.begin(), layers.end());
    }
    if (!left.empty()) {
      const int least = *std::min_element(left.begin(), left.end());
      list.fail(fmt::format("layer {} of the stage is in no chunk",
                            util::quoted(graph_.layers[static_cast<std::size_t>(least)].id)));
    }
    return chunks;
  }

  /// All stages have as many as `vpp` says; one chunk is as good as none.
  void check_chunks() {
    const std::vector<Field> stages = root_.at("stages").items();
    const auto count = [](const model::PartialStage& stage) {
      return std::max<std::int64_t>(1, std::ssize(stage.chunks));
    };
    const std::int64_t expected = vpp_.value_or(count(plan_.stages.front()));
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      if (count(plan_.stages[i]) == expected) continue;
      const std::string problem =
          fmt::format("{} {}, but {} {}", count(plan_.stages[i]),
                      count(plan_.stages[i]) == 1 ? "chunk" : "chunks",
                      vpp_ ? "strategy.vpp is" : "the first stage has", expected);
      if (stages[i].find("chunks")) stages[i].at("chunks").fail(problem);
      stages[i].fail(fmt::format("without \"chunks\" there is {}", problem));
    }
    if (expected > 1) return;
    for (model::PartialStage& stage : plan_.stages) stage.chunks.clear();
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
  std::optional<std::int64_t> vpp_;
  std::unordered_map<std::string, int> layers_;
  std::unordered_map<int, std::string> places_;  ///< by layer: the path of its first mention
};

using Output = nlohmann::ordered_json;

class PlanWriter {
 public:
  PlanWriter(const model::Plan& plan, const model::Graph& graph, const model::Cluster& cluster,
             std::optional<std::int64_t> global_batch, const std::optional<PlanTarget>& target,
             const PlanNotes& notes)
      : plan_(plan),
        graph_(graph),
        cluster_(cluster),
        batch_(global_batch),
        target_(target),
        notes_(notes) {
    const model::PlanStrategy& strategy = plan.strategy;
    if (!batch_ && has_stages()) {
      batch_ = strategy.dp * strategy.micro_batch * strategy.microbatches;
    }
    used_ = model::devices_used(plan);
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
    if (target_) out["target"] = target();
    if (plan_.shortfall) out["shortfall"] = shortfall();
    if (const auto& table = notes_.vocabulary) {
      out["vocabulary"] = {{"rows", table->rows}, {"padded_rows", table->padded_rows}};
    }
    if (notes_.restart) out["restart"] = restart();
    if (notes_.placement) out["placement"] = placement();
    if (!notes_.remarks.empty()) out["remarks"] = notes_.remarks;
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
    Output out{{"dp", s.dp},
               {"dp_inner", s.dp_inner},
               {"dp_outer", s.dp_outer},
               {"pp", s.pp},
               {"vpp", s.vpp},
               {"micro_batch", s.micro_batch},
               {"microbatches", s.microbatches},
               {"schedule", model::to_string(s.schedule)}};
    // A reader takes what is usual with the target where nothing is said.
    const bool usual =
        s.overlap.none() && (!target_ || targets::default_overlap(target_->name).none());
    if (!usual) {
      for (const auto& [name, share] : model::kOverlapTerms) {
        out["overlap"][name] = number_to_json(s.overlap.*share);
      }
    }
    return out;
  }

  Output shortfall() const {
    const model::MemoryShortfall& missing = *plan_.shortfall;
    return {{"limit", "memory"},
            {"required_bytes", number_to_json(missing.required_bytes)},
            {"available_bytes", number_to_json(missing.available_bytes)},
            {"state_bytes", number_to_json(missing.state_bytes)},
            {"least_devices", missing.least_devices}};
  }

  Output restart() const {
    const cost::Restart& load = *notes_.restart;
    const double host = cluster_.host_memory_bytes;
    return {{"ranks_per_node", load.ranks_per_node},
            {"whole_bytes_per_rank", number_to_json(load.whole_bytes_per_rank)},
            {"whole_bytes_per_node", number_to_json(load.whole_bytes_per_node)},
            {"shard_bytes_per_node", number_to_json(load.shard_bytes_per_node)},
            {"host_memory_bytes", host > 0 ? number_to_json(host) : Output()}};
  }

  Output placement() const {
    const PlanNotes::Placement& p = *notes_.placement;
    Output groups = Output::array();
    for (const PlanNotes::Placement::Groups& kind : p.groups) {
      Output domains = Output::object();
      for (const auto& [name, count] : kind.domains) domains[name] = count;
      Output entry{{"kind", kind.kind},
                   {"groups", kind.groups},
                   {"members", kind.members},
                   {"domains", std::move(domains)}};
      if (kind.mixed_rails) entry["mixed_rails"] = *kind.mixed_rails;
      groups.push_back(std::move(entry));
    }
    return {{"rank_order", p.rank_order},
            {"hosts", p.hosts},
            {"idle_hosts", p.idle_hosts},
            {"host_list", p.host_list.empty() ? Output() : Output(p.host_list)},
            {"segment_span", p.segment_span > 0 ? Output(p.segment_span) : Output()},
            {"segment_nodes", p.segment_nodes > 0 ? Output(p.segment_nodes) : Output()},
            {"groups", std::move(groups)}};
  }

  /// Of the weights of a stage, an iteration.
  std::int64_t weight_gathers(const model::StagePlan& stage) const {
    if (stage.zero == 0) return 0;
    return stage.zero < 3 ? 1 : 2 * plan_.strategy.microbatches;
  }

  Output layer_ids(const std::vector<int>& layers) const {
    Output ids = Output::array();
    for (const int layer : layers) {
      ids.push_back(graph_.layers[static_cast<std::size_t>(layer)].id);
    }
    return ids;
  }

  Output stage(const model::StagePlan& stage) const {
    const auto& strategy = graph_.strategies[static_cast<std::size_t>(stage.strategy)];
    Output out{{"layers", layer_ids(stage.layers)},
               {"strategy", strategy.id},
               {"tp", strategy.tp},
               {"cp", strategy.cp},
               {"ep", strategy.ep},
               {"position", stage.position},
               {"devices", stage.devices},
               {"recompute", model::to_string(stage.recompute)},
               {"zero", stage.zero}};
    if (stage.zero > 0) out["shard"] = model::to_string(stage.shard);
    out["weight_gathers"] = weight_gathers(stage);
    if (!stage.chunks.empty()) {
      out["chunks"] = Output::array();
      for (const auto& chunk : stage.chunks) out["chunks"].push_back(layer_ids(chunk));
    }
    out["time"] = stage_time(stage.time);
    out["memory"] = stage_memory(stage.memory);
    return out;
  }

  static Output stage_memory(const model::StageMemory& m) {
    return {{"total_bytes", number_to_json(m.total_bytes)},
            {"state_bytes", number_to_json(m.state_bytes)},
            {"activation_bytes", number_to_json(m.activation_bytes)},
            {"reserve_bytes", number_to_json(m.reserve_bytes)},
            {"weight_bytes", number_to_json(m.weight_bytes)},
            {"gradient_bytes", number_to_json(m.gradient_bytes)},
            {"optimizer_bytes", number_to_json(m.optimizer_bytes)},
            {"gathered_bytes", number_to_json(m.gathered_bytes)},
            {"in_flight_bytes", number_to_json(m.in_flight_bytes)},
            {"working_bytes", number_to_json(m.working_bytes)},
            {"context_bytes", number_to_json(m.context_bytes)},
            {"communicator_bytes", number_to_json(m.communicator_bytes)},
            {"table_bytes", number_to_json(m.table_bytes)},
            {"margin_bytes", number_to_json(m.margin_bytes)},
            {"limit_bytes", number_to_json(m.limit_bytes)}};
  }

  static Output stage_time(const model::StageTime& t) {
    Output out{{"total_s", number_to_json(t.total_s)},
               {"forward_s", number_to_json(t.forward_s)},
               {"backward_s", number_to_json(t.backward_s)},
               {"recompute_s", number_to_json(t.recompute_s)},
               {"receive_s", number_to_json(t.receive_s)},
               {"gradient_receive_s", number_to_json(t.gradient_receive_s)},
               {"zero_s", number_to_json(t.zero_s)},
               {"sync_s", number_to_json(t.sync_s)},
               {"collective_s", number_to_json(t.collective_s)},
               {"tie_s", number_to_json(t.tie_s)}};
    const auto add_if_any = [&out](const char* key, double seconds) {
      if (seconds > 0) out[key] = number_to_json(seconds);
    };
    add_if_any("update_s", t.update_s);
    add_if_any("hidden_s", t.hidden_s);
    add_if_any("hidden_transfer_s", t.hidden_transfer_s);
    add_if_any("hidden_sync_s", t.hidden_sync_s);
    return out;
  }

  Output time_split() const {
    if (!feasible() && plan_.iteration_time_s <= 0) return {};
    const model::TimeSplit& split = plan_.split;
    // what is left for the bubble is a difference and may be a rounding error below zero
    Output out{{"compute_s", number_to_json(split.compute_s)},
               {"recompute_s", number_to_json(split.recompute_s)},
               {"collective_s", number_to_json(split.collective_s)},
               {"pipeline_s", number_to_json(split.pipeline_s)},
               {"data_parallel_s", number_to_json(split.data_parallel_s)}};
    if (split.update_s > 0) out["update_s"] = number_to_json(split.update_s);
    out["bubble_s"] = number_to_json(std::max(split.bubble_s, 0.0));
    return out;
  }

  Output target() const {
    Output settings = Output::array();
    for (const auto& [key, value, why] : target_->settings) {
      settings.push_back({{"key", key}, {"value", value}, {"why", why}});
    }
    return {
        {"name", target_->name}, {"version", target_->version}, {"settings", std::move(settings)}};
  }

  Output search() const {
    Output rejected = Output::object();
    for (const auto& [reason, count] : plan_.search.rejected) rejected[reason] = count;
    Output out{{"seconds", number_to_json(plan_.search.seconds)},
               {"ranks", plan_.search.ranks},
               {"configurations", plan_.search.configurations},
               {"tables", plan_.search.tables},
               {"cells", plan_.search.cells},
               {"rejected", std::move(rejected)}};
    if (notes_.search_options) out["options"] = search_options();
    return out;
  }

  Output search_options() const {
    Output options = Output::object();
    for (const auto& [name, value] : *notes_.search_options) {
      options[name] = value.empty() ? Output(true) : Output(value);
    }
    return options;
  }

  const model::Plan& plan_;
  const model::Graph& graph_;
  const model::Cluster& cluster_;
  std::optional<std::int64_t> batch_;
  const std::optional<PlanTarget>& target_;
  const PlanNotes& notes_;
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
                         const model::Cluster& cluster, std::optional<std::int64_t> global_batch,
                         const std::optional<PlanTarget>& target, const PlanNotes& notes) {
  return to_text(PlanWriter(plan, graph, cluster, global_batch, target, notes).write());
}

}  // namespace nestplan::io

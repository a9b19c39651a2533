#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/nothing.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_report.hpp"
#include "cli/questions.hpp"
#include "cli/text.hpp"
#include "nestplan/cost/memory.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/network/node_choice.hpp"
#include "nestplan/targets/targets.hpp"
#include "nestplan/util/lists.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

using Degree = std::int64_t (*)(const model::Strategy&);

std::int64_t micro_batch_of(const model::Strategy& strategy) { return strategy.micro_batch; }
std::int64_t tp_of(const model::Strategy& strategy) { return strategy.tp; }
std::int64_t cp_of(const model::Strategy& strategy) { return strategy.cp; }
std::int64_t ep_of(const model::Strategy& strategy) { return strategy.ep; }
/// As `--ep` counts for a model: see targets::Candidate::ep.
std::int64_t expert_ways_of(const model::Strategy& strategy) {
  return strategy.ep * strategy.tp / strategy.etp;
}

/// Something else that might be allowed or there.
struct Variation {
  std::string change;
  Flags flags;
  Inquiry::Change tweak{};
  /// A list of degrees that was dropped: its default may not hold what was given, so both count.
  std::vector<std::int64_t> Flags::*widened = nullptr;
  Degree degree = nullptr;
};

/// What the best plan is then.
struct WhatIf {
  std::string change;
  std::string status = "stopped";  ///< before anything was found
  std::optional<std::string> reason;
  std::optional<double> iteration_time_s;
  std::optional<double> gain;  ///< of the plan's time
  std::optional<double> memory_bytes;
  std::optional<bool> in_margin;
};

std::vector<std::int64_t> degrees_of(const model::Graph& graph, Degree degree) {
  std::vector<std::int64_t> degrees;
  for (const model::Strategy& strategy : graph.strategies) degrees.push_back(degree(strategy));
  util::sort_unique(degrees);
  return degrees;
}

std::vector<std::int64_t> united(std::vector<std::int64_t> a, const std::vector<std::int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return util::sorted_unique(std::move(a));
}

/// The variations of a search, in a fixed order. Each allows all that the search allows.
class Variations {
 public:
  Variations(const Flags& flags, const model::Problem& problem) : flags_(flags), problem_(problem) {
    add_memory();
    add_target();
    add_restrictions();
    add_recomputation();
    add_micro_batch();
  }

  std::vector<Variation> take() { return std::move(variations_); }

 private:
  template <typename Loosen>
  void add(std::string change, Loosen loosen) {
    Variation& variation = variations_.emplace_back(std::move(change), flags_);
    loosen(variation.flags);
  }

  template <typename Value>
  void drop(const char* flag, Value Flags::*field) {
    if (flags_.*field == Value{}) return;
    add(fmt::format("without --{}", flag), [&](Flags& flags) { flags.*field = {}; });
  }

  void add_memory() {
    variations_.push_back({"1 GiB more on every device", flags_, [](model::Problem& problem) {
                             problem.cluster.device.memory_bytes += kGiB;
                             for (model::Device& device : problem.cluster.other_devices) {
                               device.memory_bytes += kGiB;
                             }
                           }});
    if (problem_.options.reserve.margin > 0) {
      add("no memory margin", [](Flags& flags) { flags.memory_margin = 0; });
    }
  }

  void add_target() {
    if (!flags_.target || *flags_.target == targets::kAny) return;
    add(fmt::format("without the rules of {}", *flags_.target),
        [](Flags& flags) { flags.target.reset(); });
  }

  void add_restrictions() {
    drop_degree("micro-batch", &Flags::micro_batch, micro_batch_of);
    drop_degree("tp", &Flags::tp, tp_of);
    drop_degree("cp", &Flags::cp, cp_of);
    drop_degree("ep", &Flags::ep, flags_.graph.empty() ? expert_ways_of : ep_of);
    if (!pins_need_depth()) drop("pp", &Flags::pp);
    drop("dp", &Flags::dp);
    drop("dp-inner", &Flags::dp_inner);
    if (problem_.options.zero != model::PlanOptions{}.zero) {
      add("without --zero", [](Flags& flags) { flags.zero = {0, 1, 2, 3}; });
    }
    if (problem_.options.shard.front() != model::ShardSpan::kAll) {
      add("without --shard", [](Flags& flags) { flags.shard = model::shard_span_names(); });
    }
    if (problem_.options.vpp.front() != 1) {
      add("without --vpp", [](Flags& flags) { flags.vpp.insert(flags.vpp.begin(), 1); });
    }
    if (!flags_.whole_hosts && network::partial_hosts(problem_.cluster) > 0) {
      add("without the hosts that miss a device", [](Flags& flags) { flags.whole_hosts = true; });
    }
    drop("slice", &Flags::slice);
    drop("nodelist", &Flags::nodelist);
    drop("exclude", &Flags::exclude);
    if (flags_.choose_nodes) {
      add("without --choose-nodes", [](Flags& flags) {
        flags.choose_nodes.reset();
        flags.segment.reset();
      });
    }
    drop("background", &Flags::background);
    drop("keep-inside", &Flags::keep_inside);
    drop("stage-at", &Flags::stage_at);
    drop("pin", &Flags::pin);
    drop("together", &Flags::together);
    drop("cut", &Flags::cut);
    drop("stage-layers", &Flags::stage_layers);
    drop("first-stage-layers", &Flags::first_stage_layers);
    drop("last-stage-layers", &Flags::last_stage_layers);
    drop("least-stage-layers", &Flags::least_stage_layers);
    drop("most-stage-layers", &Flags::most_stage_layers);
  }

  /// A stage with a number is one of a given depth.
  bool pins_need_depth() const {
    const model::StageConstraints& rules = problem_.options.stages;
    const auto numbered = [](const auto& rule) { return rule.stage > 0; };
    return std::any_of(rules.pins.begin(), rules.pins.end(), numbered) ||
           std::any_of(rules.places.begin(), rules.places.end(), numbered);
  }

  void drop_degree(const char* flag, std::vector<std::int64_t> Flags::*field, Degree degree) {
    if ((flags_.*field).empty()) return;
    drop(flag, field);
    variations_.back().widened = field;
    variations_.back().degree = degree;
  }

  void add_recomputation() {
    const auto& allowed = problem_.options.recompute;
    for (const std::string& name : model::recompute_names()) {
      const model::Recompute mode = model::parse_recompute(name);
      if (std::find(allowed.begin(), allowed.end(), mode) != allowed.end()) continue;
      add(fmt::format("recomputation {} too", name),
          [&](Flags& flags) { flags.recompute.push_back(name); });
    }
  }

  /// Twice the largest; a graph has no more than it has.
  void add_micro_batch() {
    if (flags_.model.empty()) return;
    const auto sizes = degrees_of(problem_.graph, micro_batch_of);
    const std::int64_t more = 2 * sizes.back();
    if (more > problem_.options.global_batch) return;
    add(fmt::format("micro-batches of {} too", more),
        [&](Flags& flags) { flags.micro_batch = united(sizes, {more}); });
  }

  const Flags& flags_;
  const model::Problem& problem_;
  std::vector<Variation> variations_;
};

class WhatIfQuestion {
 public:
  WhatIfQuestion(const Flags& flags, const Inquiry& inquiry) : flags_(flags), inquiry_(inquiry) {}

  ExitCode answer() {
    std::optional<PlanOutput> output;
    inquiry_.ranks().together([&] {
      if (inquiry_.ranks().speaks()) output.emplace(flags_);
    });
    base_ = inquiry_.ask(flags_);
    if (inquiry_.ranks().speaks()) print_remarks(flags_, base_.setup);
    for (Variation& variation : Variations(flags_, base_.setup.problem).take()) {
      rows_.emplace_back().change = std::move(variation.change);
      if (inquiry_.over()) {
        stopped_ = true;
        continue;
      }
      widen(variation);
      const Finding finding = inquiry_.ask(variation.flags, variation.tweak);
      if (finding.plan) fill(rows_.back(), finding);
    }
    ExitCode code = ExitCode::kDone;
    inquiry_.ranks().together([&] {
      if (inquiry_.ranks().speaks()) code = print(*output);
    });
    return inquiry_.ranks().agree(code);
  }

 private:
  /// *Collective.* Only the first rank needs to know.
  void widen(Variation& variation) const {
    if (variation.widened == nullptr) return;
    inquiry_.ranks().together([&] {
      if (!inquiry_.ranks().speaks()) return;
      const Setup setup = inquiry_.load(variation.flags);
      variation.flags.*variation.widened =
          united(flags_.*variation.widened, degrees_of(setup.problem.graph, variation.degree));
    });
  }

  void fill(WhatIf& row, const Finding& finding) {
    const model::Plan& plan = *finding.plan;
    stopped_ = stopped_ || plan.search.stopped;
    if (finding.undecided()) return;
    row.status = to_string(plan.status);
    if (!finding.fits()) {
      row.reason = plan.reason;
      return;
    }
    row.iteration_time_s = plan.iteration_time_s;
    row.memory_bytes = peak_bytes(plan);
    const model::Problem& problem = base_.setup.problem;
    row.in_margin = std::any_of(plan.stages.begin(), plan.stages.end(), [&](const auto& stage) {
      const double usable = stage.memory.limit_bytes + stage.memory.margin_bytes;
      return stage.memory.total_bytes > cost::memory_limit(usable, problem.options.reserve);
    });
    if (base_.fits()) row.gain = 1 - plan.iteration_time_s / base_.plan->iteration_time_s;
  }

  ExitCode print(PlanOutput& output) const {
    output.write(
        *base_.plan, base_.setup, {.fold_stages = !flags_.verbose, .breakdown = flags_.verbose},
        with_member(plan_document(*base_.plan, base_.setup), "what_if", json()), '\n' + text());
    return stopped_ ? ExitCode::kStopped : exit_code_of(*base_.plan);
  }

  Json json() const {
    Json rows = Json::array();
    for (const WhatIf& row : rows_) {
      rows.push_back({{"change", row.change},
                      {"status", row.status},
                      {"iteration_time_s", or_null(row.iteration_time_s)},
                      {"gain", or_null(row.gain)},
                      {"memory_bytes", whole_or_null(row.memory_bytes)},
                      {"in_margin", or_null(row.in_margin)},
                      {"reason", or_null(row.reason)}});
    }
    return rows;
  }

  std::string text() const {
    constexpr auto kRight = Table::Align::kRight;
    Table table({{"what if"}, {"iteration", kRight}, {"gain", kRight}, {"GiB", kRight}, {""}});
    for (const WhatIf& row : rows_) {
      table.add({row.change,
                 row.iteration_time_s ? precise_seconds(*row.iteration_time_s) : row.status,
                 row.gain ? percent(*row.gain) : kNothing,
                 row.memory_bytes ? gibibytes(*row.memory_bytes) : kNothing, remark(row)});
    }
    return table.text(0);
  }

  static std::string remark(const WhatIf& row) {
    std::string text = row.in_margin.value_or(false) ? "in the margin" : "";
    if (row.status == to_string(model::Status::kFeasible)) {
      text += fmt::format("{}stopped early", text.empty() ? "" : ", ");
    }
    return text;
  }

  const Flags& flags_;
  const Inquiry& inquiry_;
  Finding base_;
  std::vector<WhatIf> rows_;
  bool stopped_ = false;  ///< on the first rank
};

}  // namespace

ExitCode answer_what_if(const Flags& flags, const Inquiry& inquiry) {
  return WhatIfQuestion(flags, inquiry).answer();
}

}  // namespace nestplan::cli

#include "cli/questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/console.hpp"
#include "cli/nothing.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_report.hpp"
#include "cli/text.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Only the first `count` devices.
Inquiry::Change first_devices(std::int64_t count) {
  return [count](model::Problem& problem) { problem.cluster.limit = count; };
}

/// Bisection for the fewest devices. Whether some plan uses at most n devices is monotone in n: a
/// plan that fits, without its gaps, fits on as many devices as it uses, since memory does not
/// depend on places.
class FewestDevices {
 public:
  FewestDevices(const Flags& flags, const Inquiry& inquiry) : flags_(flags), inquiry_(inquiry) {}

  ExitCode answer() {
    std::optional<PlanOutput> output;
    inquiry_.ranks().together([&] {
      if (inquiry_.ranks().speaks()) output.emplace(flags_);
    });
    last_ = inquiry_.ask(flags_, {}, /*any_plan=*/true);
    all_ = last_.setup.problem.cluster.devices();  // on all ranks
    if (inquiry_.ranks().speaks()) print_remarks(flags_, last_.setup);
    learn(last_, all_);
    while (fits_ > 0 && !proven() && !inquiry_.over()) {
      const std::int64_t middle = below_ + (fits_ - below_) / 2;
      Finding finding = inquiry_.ask(flags_, first_devices(middle), /*any_plan=*/true);
      if (learn(finding, middle)) last_ = std::move(finding);
    }
    if (fits_ > 0 && !inquiry_.over()) {
      Finding best = inquiry_.ask(flags_, first_devices(fits_));
      if (inquiry_.agree(best.undecided() ? 1 : 0) == 0) last_ = std::move(best);
    }
    ExitCode code = ExitCode::kDone;
    inquiry_.ranks().together([&] {
      if (inquiry_.ranks().speaks()) code = print(*output);
    });
    return inquiry_.ranks().agree(code);
  }

 private:
  /// Learns whether a plan fits on `count` devices, and what keeps it from fitting. Undecided
  /// searches teach nothing. *Collective.*
  bool learn(const Finding& finding, std::int64_t count) {
    const std::int64_t used =
        inquiry_.agree(finding.fits() ? std::min(count, model::devices_used(*finding.plan)) : 0);
    if (used > 0) {
      fits_ = used;
    } else if (inquiry_.agree(finding.undecided() ? 1 : 0) == 0) {
      below_ = count;
      if (finding.plan) reason_ = finding.plan->reason;
    }
    return used > 0;
  }

  bool proven() const { return below_ + 1 == fits_; }

  ExitCode print(PlanOutput& output) const {
    const model::Plan& plan = *last_.plan;
    if (fits_ > 0 && !last_.fits()) {
      throw InternalError(
          fmt::format("a plan that uses {} devices does not fit there: {}", fits_, plan.reason));
    }
    const std::string document =
        with_member(plan_document(plan, last_.setup), "fewest_devices", json());
    output.write(plan, last_.setup, {.fold_stages = !flags_.verbose, .breakdown = flags_.verbose},
                 document, fits_ > 0 ? '\n' + labelled_paragraph("fewest", text()) : "");
    const ExitCode code = exit_code_of(plan);
    return code == ExitCode::kDone && !proven() ? ExitCode::kStopped : code;
  }

  Json json() const {
    Json below(nullptr);
    if (below_ > 0) below = Json{{"devices", below_}, {"reason", reason_}};
    return {{"devices", fits_ > 0 ? Json(fits_) : Json(nullptr)},
            {"of", all_},
            {"proven", fits_ > 0 ? proven() : below_ == all_},
            {"too_few", below}};
  }

  std::string text() const {
    std::string text = fmt::format("{} of {}", util::format_count(fits_), counted(all_, "device"));
    if (!proven()) {
      return text + fmt::format("; stopped before {} to {} were tried",
                                util::format_count(below_ + 1), util::format_count(fits_ - 1));
    }
    if (below_ > 0) {
      text += fmt::format("; on {} nothing fits: {}", util::format_count(below_), reason_);
    }
    return text;
  }

  const Flags& flags_;
  const Inquiry& inquiry_;
  Finding last_;  ///< what is told in the end
  std::int64_t all_ = 0;
  std::int64_t below_ = 0;  ///< nothing fits on as many
  std::int64_t fits_ = 0;   ///< something fits on as many; 0: not known of any
  std::string reason_;      ///< why not on `below_`; on the first rank
};

/// One number of devices, and what is best there. Rates per device count all of them.
struct ScalingRow {
  std::int64_t devices = 0;
  std::int64_t global_batch = 0;
  std::string status = "stopped";  ///< before anything was found
  std::string reason;
  std::optional<double> iteration_time_s, lower_bound_s;
  std::optional<double> samples_per_s, tokens_per_s, tokens_per_s_per_device;
  std::optional<double> memory_bytes;
  std::optional<double> efficiency;
  std::int64_t used = 0;
  std::string strategy;
  Json degrees;
};

/// A search for each number of devices.
class Scaling {
 public:
  Scaling(const Flags& flags, const Inquiry& inquiry) : flags_(flags), inquiry_(inquiry) {}

  ExitCode answer() {
    inquiry_.ranks().together([&] {
      if (inquiry_.ranks().speaks()) check_counts();
    });
    for (const std::int64_t count : flags_.device_counts) {
      Flags flags = flags_;
      flags.global_batch = batch_for(count);
      ScalingRow& row = rows_.emplace_back();
      row.devices = count;
      row.global_batch = *flags.global_batch;
      if (inquiry_.over()) {
        stopped_ = true;
        continue;
      }
      const Finding finding = inquiry_.ask(flags, first_devices(count));
      if (finding.plan) fill(row, finding);
    }
    ExitCode code = ExitCode::kDone;
    inquiry_.ranks().together([&] {
      if (!inquiry_.ranks().speaks()) return;
      compare();
      print_result(flags_.json ? json() : text());
      code = exit_code();
    });
    return inquiry_.ranks().agree(code);
  }

 private:
  void check_counts() const {
    const Setup setup = inquiry_.load(flags_);
    check_device_counts(flags_, setup.problem.cluster);
    for (const std::int64_t count : flags_.device_counts) {
      const std::int64_t least = flags_.device_counts.front();
      if (!flags_.weak || *flags_.global_batch * count % least == 0) continue;
      throw InvalidConfig(
          fmt::format("--weak: a batch of {} on {} devices is none of whole sequences on {}",
                      *flags_.global_batch, least, count));
    }
    print_remarks(flags_, setup);
  }

  std::int64_t batch_for(std::int64_t count) const {
    const std::int64_t batch = *flags_.global_batch;
    return flags_.weak ? batch * count / flags_.device_counts.front() : batch;
  }

  void fill(ScalingRow& row, const Finding& finding) {
    const model::Plan& plan = *finding.plan;
    stopped_ = stopped_ || plan.search.stopped;
    if (finding.undecided()) return;
    row.status = to_string(plan.status);
    row.reason = plan.reason;
    if (!finding.fits()) return;
    const model::Graph& graph = finding.setup.problem.graph;
    const auto devices = static_cast<double>(row.devices);
    row.iteration_time_s = plan.iteration_time_s;
    row.lower_bound_s = plan.lower_bound_s;
    row.samples_per_s = static_cast<double>(row.global_batch) / plan.iteration_time_s;
    if (graph.tokens_per_sample) {
      row.tokens_per_s = *row.samples_per_s * *graph.tokens_per_sample;
      row.tokens_per_s_per_device = *row.tokens_per_s / devices;
    }
    row.memory_bytes = peak_bytes(plan);
    row.used = model::devices_used(plan);
    row.strategy = strategy_text(plan, graph);
    row.degrees = Json::parse(plan_document(plan, finding.setup)).at("strategy");
  }

  /// Samples per second and device, over those of the first row that has any.
  void compare() {
    std::optional<double> first;
    for (ScalingRow& row : rows_) {
      if (!row.samples_per_s) continue;
      const double rate = *row.samples_per_s / static_cast<double>(row.devices);
      if (!first) first = rate;
      row.efficiency = rate / *first;
    }
  }

  ExitCode exit_code() const {
    if (stopped_) return ExitCode::kStopped;
    const bool any = std::any_of(rows_.begin(), rows_.end(), [](const ScalingRow& row) {
      return row.iteration_time_s.has_value();
    });
    return any ? ExitCode::kDone : ExitCode::kInfeasible;
  }

  std::string json() const {
    Json rows = Json::array();
    for (const ScalingRow& row : rows_) {
      rows.push_back({{"devices", row.devices},
                      {"global_batch", row.global_batch},
                      {"status", row.status},
                      {"iteration_time_s", or_null(row.iteration_time_s)},
                      {"lower_bound_s", or_null(row.lower_bound_s)},
                      {"samples_per_s", or_null(row.samples_per_s)},
                      {"tokens_per_s", or_null(row.tokens_per_s)},
                      {"tokens_per_s_per_device", or_null(row.tokens_per_s_per_device)},
                      {"efficiency", or_null(row.efficiency)},
                      {"memory_bytes", whole_or_null(row.memory_bytes)},
                      {"devices_used", row.used},
                      {"strategy", row.degrees},
                      {"reason", row.reason.empty() ? Json(nullptr) : Json(row.reason)}});
    }
    const Json out{{"scaling", flags_.weak ? "weak" : "strong"}, {"rows", std::move(rows)}};
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  }

  std::string text() const {
    constexpr auto kRight = Table::Align::kRight;
    Table table({{"devices", kRight},
                 {"batch", kRight},
                 {"iteration", kRight},
                 {"samples/s", kRight},
                 {"tokens/s/dev", kRight},
                 {"efficiency", kRight},
                 {"GiB", kRight},
                 {"strategy"}});
    std::string notes;
    for (const ScalingRow& row : rows_) {
      const auto shown = [](const std::optional<double>& value) {
        return value ? fmt::format("{:.4g}", *value) : kNothing;
      };
      table.add({util::format_count(row.devices), util::format_count(row.global_batch),
                 row.iteration_time_s ? precise_seconds(*row.iteration_time_s) : row.status,
                 shown(row.samples_per_s), shown(row.tokens_per_s_per_device),
                 row.efficiency ? percent(*row.efficiency) : kNothing,
                 row.memory_bytes ? gibibytes(*row.memory_bytes) : kNothing,
                 row.strategy.empty() ? kNothing : row.strategy});
      if (row.status == to_string(model::Status::kFeasible)) {
        notes += labelled_paragraph("  " + util::format_count(row.devices),
                                    fmt::format("stopped early, nothing is faster than {}",
                                                precise_seconds(*row.lower_bound_s)));
      }
      if (!row.reason.empty()) {
        notes += labelled_paragraph("  " + util::format_count(row.devices), row.reason);
      }
    }
    const char* const heading = flags_.weak ? "weak scaling: the batch grows with the devices\n"
                                            : "strong scaling: the batch stays\n";
    return heading + table.wrapped_text(7) + (notes.empty() ? "" : '\n' + notes);
  }

  const Flags& flags_;
  const Inquiry& inquiry_;
  std::vector<ScalingRow> rows_;
  bool stopped_ = false;  ///< on the first rank
};

}  // namespace

bool asks_question(const Flags& flags) {
  return flags.fewest_devices || !flags.device_counts.empty() || flags.what_if ||
         flags.top.has_value() || flags.explain || flags.pareto;
}

void check_question(const Flags& flags) {
  if (flags.weak && (flags.device_counts.empty() || flags.pareto)) {
    throw InvalidConfig(
        flags.pareto ? "--weak: --pareto compares plans for one batch"
                     : "--weak: --device-counts is needed: numbers of devices to scale over");
  }
  if (!flags.pareto && (flags.pareto_points || !flags.csv.empty())) {
    throw InvalidConfig(
        fmt::format("{}: is for --pareto", flags.pareto_points ? "--pareto-points" : "--csv"));
  }
  std::vector<const char*> asked;
  if (flags.fewest_devices) asked.push_back("--fewest-devices");
  if (!flags.device_counts.empty() && !flags.pareto) asked.push_back("--device-counts");
  if (flags.what_if) asked.push_back("--what-if");
  if (flags.top && !flags.explain) asked.push_back("--top");
  if (flags.explain) asked.push_back("--explain");
  if (flags.pareto) asked.push_back("--pareto");
  if (asked.empty()) return;
  if (asked.size() > 1) {
    throw InvalidConfig(fmt::format("{} and {}: one question at a time", asked[0], asked[1]));
  }
  if ((flags.top || flags.explain) && flags.per_stage_strategies) {
    throw InvalidConfig(
        fmt::format("{}: tells strategies apart, which --per-stage-strategies mixes", asked[0]));
  }
  if (!flags.checkpoint.empty()) {
    throw InvalidConfig(
        fmt::format("{}: a --checkpoint holds one search, this takes several", asked[0]));
  }
  if (!flags.output.empty() && (flags.pareto || !flags.device_counts.empty())) {
    throw InvalidConfig(
        flags.pareto ? "--pareto: has a plan for every point, -o takes one (see --json and --csv)"
                     : "--device-counts: has a plan for every count, -o takes one (see --json)");
  }
}

void check_device_counts(const Flags& flags, const model::Cluster& cluster) {
  const auto& counts = flags.device_counts;
  if (counts.empty() || counts.back() <= cluster.devices()) return;
  throw InvalidConfig(fmt::format("--device-counts: {} is more than the {} devices of {}",
                                  counts.back(), cluster.devices(), cluster.name));
}

ExitCode answer(const Flags& flags, const Ranks& ranks) {
  const Inquiry inquiry(flags, ranks);
  if (flags.fewest_devices) return FewestDevices(flags, inquiry).answer();
  if (flags.what_if) return answer_what_if(flags, inquiry);
  if (flags.explain) return answer_explain(flags, inquiry);
  if (flags.top) return answer_top(flags, inquiry);
  if (flags.pareto) return answer_pareto(flags, inquiry);
  return Scaling(flags, inquiry).answer();
}

}  // namespace nestplan::cli

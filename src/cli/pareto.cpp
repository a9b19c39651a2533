#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/console.hpp"
#include "cli/csv.hpp"
#include "cli/pareto_front.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_report.hpp"
#include "cli/questions.hpp"
#include "cli/text.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kPointsShown = 12;  ///< for each number of devices

/// A plan as far as it is told.
struct Point {
  FrontPoint costs;
  std::int64_t used = 0;  ///< devices
  double samples_per_s = 0;
  std::string strategy;
  Json degrees;
};

/// Where the front is to go: the file of `--csv`, and stdout.
class FrontOutput {
 public:
  explicit FrontOutput(const Flags& flags) : flags_(flags) {
    if (flags.csv.empty()) return;
    if (!is_standard_output(flags.csv)) {
      file_.emplace(flags.csv);
    } else if (flags.json) {
      throw InvalidConfig("--json and --csv cannot share stdout");
    }
  }

  void write(const std::string& text, const std::string& json, const std::string& csv) {
    if (file_) file_->commit(csv);
    const bool csv_only = !file_ && !flags_.csv.empty();
    print_result(csv_only ? csv : flags_.json ? json : text);
  }

 private:
  const Flags& flags_;
  std::optional<io::OutputFile> file_;
};

/// The front over iteration time, memory and devices: for each number of devices the fastest plan
/// under every limit of memory that changes it.
class ParetoQuestion {
 public:
  ParetoQuestion(const Flags& flags, const Inquiry& inquiry) : flags_(flags), inquiry_(inquiry) {}

  ExitCode answer() {
    std::optional<FrontOutput> output;
    std::vector<std::int64_t> counts = flags_.device_counts;
    inquiry_.ranks().together([&] {
      if (!inquiry_.ranks().speaks()) return;
      output.emplace(flags_);
      const Setup setup = inquiry_.load(flags_);
      print_remarks(flags_, setup);
      all_ = setup.problem.cluster.devices();
      check_device_counts(flags_, setup.problem.cluster);
    });
    all_ = inquiry_.agree(all_);
    if (counts.empty()) counts = halves(all_);
    std::sort(counts.rbegin(), counts.rend());
    for (const std::int64_t count : counts) {
      if (!walk(count)) break;  // fewer devices hold no more
    }
    ExitCode code = ExitCode::kDone;
    inquiry_.ranks().together([&] {
      if (!inquiry_.ranks().speaks()) return;
      keep_front();
      output->write(text(), json(), csv());
      code = stopped_         ? ExitCode::kStopped
             : front_.empty() ? ExitCode::kInfeasible
                              : ExitCode::kDone;
    });
    return inquiry_.ranks().agree(code);
  }

 private:
  /// Whether some plan fits on the first `count` devices. *Collective.*
  bool walk(std::int64_t count) {
    bool some = false;
    walk_front([&](std::optional<std::int64_t> limit) -> std::optional<std::int64_t> {
      if (inquiry_.over()) {
        stopped_ = true;
        return std::nullopt;
      }
      const Finding finding = inquiry_.ask(flags_, [&](model::Problem& problem) {
        problem.cluster.limit = count;
        if (limit) limit_memory(problem, *limit);
      });
      if (finding.plan) note(count, finding, some);
      const std::int64_t bytes =
          inquiry_.agree(finding.fits() ? std::llround(peak_bytes(*finding.plan)) : 0);
      if (bytes == 0) return std::nullopt;
      some = true;
      return bytes;
    });
    return some;
  }

  /// On the first rank.
  void note(std::int64_t count, const Finding& finding, bool some) {
    const model::Plan& plan = *finding.plan;
    stopped_ = stopped_ || plan.search.stopped;
    if (!finding.fits()) {
      if (!some && !finding.undecided()) too_few_ = {count, plan.reason};
      return;
    }
    const auto batch = static_cast<double>(*flags_.global_batch);
    points_.push_back({{count, plan.iteration_time_s, peak_bytes(plan)},
                       model::devices_used(plan),
                       batch / plan.iteration_time_s,
                       strategy_text(plan, finding.setup.problem.graph),
                       Json::parse(plan_document(plan, finding.setup)).at("strategy")});
  }

  void keep_front() {
    std::vector<FrontPoint> costs;
    for (const Point& point : points_) costs.push_back(point.costs);
    for (const std::size_t i : undominated(costs)) front_.push_back(std::move(points_[i]));
    const auto wanted = static_cast<std::size_t>(flags_.pareto_points.value_or(kPointsShown));
    for (std::size_t begin = 0; begin < front_.size();) {
      std::size_t end = begin;
      while (end < front_.size() && front_[end].costs.devices == front_[begin].costs.devices) ++end;
      for (const std::size_t i : spread(end - begin, wanted)) shown_.push_back(begin + i);
      begin = end;
    }
  }

  Json row(const Point& point) const {
    return {{"devices", point.costs.devices},
            {"devices_used", point.used},
            {"iteration_time_s", point.costs.iteration_time_s},
            {"memory_bytes", std::llround(point.costs.memory_bytes)},
            {"samples_per_s", point.samples_per_s}};
  }

  std::string json() const {
    Json rows = Json::array();
    for (const std::size_t i : shown_) {
      Json each = row(front_[i]);
      each["strategy"] = front_[i].degrees;
      rows.push_back(std::move(each));
    }
    Json too_few(nullptr);
    if (too_few_) too_few = {{"devices", too_few_->first}, {"reason", too_few_->second}};
    const Json out{{"points", front_.size()},
                   {"left_out", front_.size() - shown_.size()},
                   {"complete", !stopped_},
                   {"too_few", std::move(too_few)},
                   {"rows", std::move(rows)}};
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  }

  std::string csv() const {
    std::vector<Json> records;
    for (const std::size_t i : shown_) {
      Json each = row(front_[i]);
      each.update(front_[i].degrees);
      records.push_back(std::move(each));
    }
    return csv_text(records);
  }

  std::string text() const {
    constexpr auto kRight = Table::Align::kRight;
    Table table({{"devices", kRight},
                 {"iteration", kRight},
                 {"GiB", kRight},
                 {"samples/s", kRight},
                 {"strategy"}});
    for (const std::size_t i : shown_) {
      const Point& point = front_[i];
      table.add({util::format_count(point.costs.devices),
                 precise_seconds(point.costs.iteration_time_s), gibibytes(point.costs.memory_bytes),
                 fmt::format("{:.4g}", point.samples_per_s), point.strategy});
    }
    std::string out =
        "front of iteration time, memory and devices: no plan is better in one and "
        "no worse in the others\n";
    if (!front_.empty()) out += table.text(4);
    return out + notes();
  }

  std::string notes() const {
    std::string out;
    if (shown_.size() < front_.size()) {
      out += labelled_paragraph(
          "left out", fmt::format("{} of {} points; --pareto-points {} shows all",
                                  front_.size() - shown_.size(), front_.size(), most_per_count()));
    }
    if (stopped_) out += labelled_paragraph("stopped", "before the front was complete");
    if (too_few_) {
      out += labelled_paragraph(
          "too few", fmt::format("on {} nothing fits: {}", counted(too_few_->first, "device"),
                                 too_few_->second));
    }
    return out;
  }

  std::size_t most_per_count() const {
    std::size_t most = 0;
    for (const Point& point : front_) {
      const auto as_many = [&](const Point& other) {
        return other.costs.devices == point.costs.devices;
      };
      most = std::max<std::size_t>(
          most, static_cast<std::size_t>(std::count_if(front_.begin(), front_.end(), as_many)));
    }
    return most;
  }

  const Flags& flags_;
  const Inquiry& inquiry_;
  std::int64_t all_ = 0;  ///< devices
  // On the first rank:
  std::vector<Point> points_;  ///< by devices, fewer behind more; by time
  std::vector<Point> front_;   ///< what is left of them
  std::vector<std::size_t> shown_;
  std::optional<std::pair<std::int64_t, std::string>> too_few_;  ///< devices, and why
  bool stopped_ = false;
};

}  // namespace

ExitCode answer_pareto(const Flags& flags, const Inquiry& inquiry) {
  return ParetoQuestion(flags, inquiry).answer();
}

}  // namespace nestplan::cli

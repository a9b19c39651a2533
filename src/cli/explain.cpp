#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/best_plans.hpp"
#include "cli/cost_margins.hpp"
#include "cli/neighbours.hpp"
#include "cli/nothing.hpp"
#include "cli/plan_limits.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_report.hpp"
#include "cli/plan_terms.hpp"
#include "cli/questions.hpp"
#include "cli/text.hpp"
#include "cli/top_list.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Plans that the margins are taken over where `--top` does not say.
constexpr std::int64_t kRivals = 6;

/// A neighbour, and the best plan there.
struct Row {
  Neighbour neighbour;
  Finding finding;
  std::string refused;  ///< why there is nothing to search

  bool fits() const { return refused.empty() && finding.fits(); }
  /// Nothing is known of it.
  bool open() const { return refused.empty() && (!finding.plan || finding.undecided()); }
};

class Explanation {
 public:
  Explanation(const Flags& flags, const Inquiry& inquiry)
      : flags_(flags), inquiry_(inquiry), best_(flags, inquiry, flags.top.value_or(kRivals)) {}

  ExitCode answer(std::optional<PlanOutput>& output) {
    stopped_ = best_.stopped();
    if (!best_.found().empty()) {
      limits_ = plan_limits(flags_, inquiry_, best_.first());
      ask_neighbours();
      margins_ = cost_margins(flags_, inquiry_, best_, /*search=*/true);
      stopped_ = stopped_ || inquiry_.over();
    }
    ExitCode code = ExitCode::kDone;
    inquiry_.ranks().together([&] {
      if (inquiry_.ranks().speaks()) code = print(*output);
    });
    return inquiry_.ranks().agree(code);
  }

 private:
  const model::Plan& plan() const { return *best_.first().plan; }

  void ask_neighbours() {
    inquiry_.ranks().together([&] {
      if (!inquiry_.ranks().speaks()) return;
      for (Neighbour& each : neighbours_of(flags_, best_.first().setup.problem, plan())) {
        rows_.push_back({std::move(each), {}, {}});
      }
    });
    rows_.resize(static_cast<std::size_t>(inquiry_.agree(std::ssize(rows_))));
    for (Row& row : rows_) {
      if (inquiry_.over()) break;
      inquiry_.ranks().together([&] {
        if (inquiry_.ranks().speaks()) row.refused = refusal(row.neighbour);
      });
      if (inquiry_.agree(row.refused.empty() ? 0 : 1) != 0) continue;
      row.finding = inquiry_.ask(row.neighbour.flags);
      if (row.finding.plan) stopped_ = stopped_ || row.finding.plan->search.stopped;
    }
  }

  /// Why the inputs have no such neighbour; empty: they have.
  std::string refusal(const Neighbour& neighbour) const {
    try {
      const Setup setup = inquiry_.load(neighbour.flags);
      if (!setup.problem.graph.strategies.empty()) return "";
      return setup.remarks.empty() ? "no strategy is left" : setup.remarks.front();
    } catch (const InvalidConfig& error) {
      return error.what();
    }
  }

  ExitCode print(PlanOutput& output) const {
    const Setup& setup = best_.first().setup;
    std::string document = plan_document(plan(), setup);
    if (flags_.top) document = with_member(document, "top", top_json(best_));
    output.write(plan(), setup, {.fold_stages = !flags_.verbose, .breakdown = flags_.verbose},
                 with_member(document, "explanation", json()),
                 best_.found().empty() ? "" : '\n' + text());
    return stopped_ ? ExitCode::kStopped : exit_code_of(plan());
  }

  Json json() const {
    if (best_.found().empty()) return nullptr;
    Json neighbours = Json::array();
    for (const Row& row : rows_) neighbours.push_back(row_json(row));
    return {{"limits", limits_json(limits_)},
            {"reason", limits_text(limits_, plan())},
            {"neighbours", std::move(neighbours)},
            {"margins", margins_json(margins_, best_)}};
  }

  Json row_json(const Row& row) const {
    Json json{{"change", row.neighbour.change},
              {"offered", row.neighbour.offered},
              {"status", status(row)},
              {"iteration_time_s", nullptr},
              {"slower", nullptr},
              {"memory_bytes", nullptr},
              {"strategy", nullptr},
              {"time_split_change", nullptr},
              {"reason", nullptr},
              {"sentence", sentence(row)}};
    if (row.fits()) {
      const model::Plan& other = *row.finding.plan;
      json["iteration_time_s"] = other.iteration_time_s;
      json["slower"] = slower(other);
      json["memory_bytes"] = std::llround(peak_bytes(other));
      json["strategy"] = Json::parse(plan_document(other, row.finding.setup)).at("strategy");
      json["time_split_change"] = terms_json(other.split, plan().split);
    } else if (!row.open()) {
      json["reason"] = row.refused.empty() ? row.finding.plan->reason : row.refused;
    }
    return json;
  }

  static std::string status(const Row& row) {
    if (row.open()) return "stopped";
    return row.refused.empty() ? to_string(row.finding.plan->status)
                               : to_string(model::Status::kInfeasible);
  }

  double slower(const model::Plan& other) const {
    return other.iteration_time_s / plan().iteration_time_s - 1;
  }

  std::string sentence(const Row& row) const {
    std::string text = row.neighbour.change + ": ";
    if (row.open()) return text + "stopped before it was searched";
    if (!row.refused.empty()) return text + "impossible: " + row.refused;
    if (!row.fits()) return text + impossible(*row.finding.plan);
    const model::Plan& other = *row.finding.plan;
    text += fmt::format("{} with {}", speed(slower(other)),
                        strategy_text(other, row.finding.setup.problem.graph));
    text += exchange(other);
    if (!row.neighbour.offered) {
      text += fmt::format("; {} did not offer it", row.neighbour.option);
    }
    return text;
  }

  static std::string impossible(const model::Plan& other) {
    if (!other.shortfall) return "impossible: " + other.reason;
    const model::MemoryShortfall& missing = *other.shortfall;
    return fmt::format(
        "does not fit: the plan that comes nearest needs {} GiB a device, {} GiB "
        "more than there are",
        gibibytes(missing.required_bytes),
        gibibytes(missing.required_bytes - missing.available_bytes));
  }

  static std::string speed(double slower) {
    constexpr double kNoDifference = 5e-4;
    if (std::abs(slower) < kNoDifference) return "as fast";
    return percent(std::abs(slower)) + (slower > 0 ? " slower" : " faster");
  }

  /// What takes longer and what less long, the largest first; what is small beside the largest is
  /// left to the table.
  std::string exchange(const model::Plan& other) const {
    constexpr double kSmall = 0.05;
    std::vector<std::pair<double, const char*>> losses, gains;
    double largest = 0;
    for (const auto& [name, seconds] : kPlanTerms) {
      const double change = other.split.*seconds - plan().split.*seconds;
      (change > 0 ? losses : gains).emplace_back(std::abs(change), name);
      largest = std::max(largest, std::abs(change));
    }
    const auto listed = [&](const char* verb, std::vector<std::pair<double, const char*>>& terms) {
      std::sort(terms.rbegin(), terms.rend());
      std::vector<std::string> parts;
      for (const auto& [seconds, name] : terms) {
        if (seconds <= kSmall * largest || difference_text(seconds) == "=") continue;
        parts.push_back(fmt::format("{} of {}", util::format_seconds(seconds), name));
      }
      return parts.empty() ? "" : fmt::format("{} {}", verb, fmt::join(parts, ", "));
    };
    const std::string lost = listed("; loses", losses);
    return lost + listed("; gains", gains) + memory_change(other);
  }

  std::string memory_change(const model::Plan& other) const {
    const double more = peak_bytes(other) - peak_bytes(plan());
    const std::string amount = gibibytes(std::abs(more));
    if (std::abs(more) < (1 << 26)) return "";
    return fmt::format("; {} GiB {}", amount, more > 0 ? "more" : "less");
  }

  std::string text() const {
    std::string out = labelled_paragraph("why", limits_text(limits_, plan()));
    if (flags_.top) out += '\n' + top_text(best_, *flags_.top);
    out += "\nneighbours, and what of their time differs from the plan's\n" + table();
    for (const Row& row : rows_) out += labelled_paragraph("  –", sentence(row));
    return out + '\n' + margins_text(margins_, best_);
  }

  std::string table() const {
    constexpr auto kRight = Table::Align::kRight;
    std::vector<Table::Column> columns{
        {"instead"}, {"iteration", kRight}, {"slower", kRight}, {"GiB", kRight}};
    std::vector<PlanTerm> shown;
    for (const PlanTerm& term : kPlanTerms) {
      if (!differs(term)) continue;
      shown.push_back(term);
      columns.push_back({term.name, kRight});
    }
    Table table(columns);
    for (const Row& row : rows_) {
      std::vector<std::string> cells{row.neighbour.label};
      if (row.fits()) {
        const model::Plan& other = *row.finding.plan;
        cells.push_back(precise_seconds(other.iteration_time_s));
        cells.push_back((slower(other) < 0 ? "−" : "") + percent(std::abs(slower(other))));
        cells.push_back(gibibytes(peak_bytes(other)));
        for (const PlanTerm& term : shown) {
          cells.push_back(difference_text(other.split.*term.seconds - plan().split.*term.seconds));
        }
      } else {
        cells.push_back(status(row));
        cells.resize(columns.size(), kNothing);
      }
      table.add(std::move(cells));
    }
    return table.text(0);
  }

  bool differs(const PlanTerm& term) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) {
      return row.fits() && difference_text(row.finding.plan->split.*term.seconds -
                                           plan().split.*term.seconds) != "=";
    });
  }

  const Flags& flags_;
  const Inquiry& inquiry_;
  BestPlans best_;
  PlanLimits limits_;
  std::vector<Row> rows_;
  std::vector<CostMargin> margins_;
  bool stopped_ = false;  ///< on the first rank
};

}  // namespace

ExitCode answer_explain(const Flags& flags, const Inquiry& inquiry) {
  std::optional<PlanOutput> output;
  inquiry.ranks().together([&] {
    if (inquiry.ranks().speaks()) output.emplace(flags);
  });
  return Explanation(flags, inquiry).answer(output);
}

}  // namespace nestplan::cli

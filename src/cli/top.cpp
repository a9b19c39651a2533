#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/nothing.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_report.hpp"
#include "cli/questions.hpp"
#include "cli/text.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/lists.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;
using List = std::vector<std::int64_t>;

/// What makes two plans different strategies.
constexpr std::size_t kDegrees = 7;
constexpr std::array<const char*, kDegrees> kNames{"micro_batch", "dp", "pp", "vpp",
                                                   "tp",          "cp", "ep"};
using Key = std::array<std::int64_t, kDegrees>;
using Space = std::array<List, kDegrees>;

/// The list of a degree among the options.
List& list_of(model::PlanOptions& options, std::size_t degree) {
  const std::array<List*, kDegrees> lists{&options.micro_batches,
                                          &options.dp,
                                          &options.pp,
                                          &options.vpp,
                                          &options.tp,
                                          &options.cp,
                                          &options.ep};
  return *lists[degree];
}

Key key_of(const model::Plan& plan, const model::Graph& graph) {
  const model::Strategy& first =
      graph.strategies[static_cast<std::size_t>(plan.stages.front().strategy)];
  return {plan.strategy.micro_batch,
          plan.strategy.dp,
          plan.strategy.pp,
          plan.strategy.vpp,
          first.tp,
          first.cp,
          first.ep};
}

/// Every degree that a plan of `problem` can have, without empty lists that mean all.
Space whole_space(const model::Problem& problem) {
  const model::PlanOptions& options = problem.options;
  Space all;
  for (const model::Strategy& strategy : problem.graph.strategies) {
    all[0].push_back(strategy.micro_batch);
    all[4].push_back(strategy.tp);
    all[5].push_back(strategy.cp);
    all[6].push_back(strategy.ep);
  }
  const std::int64_t devices = problem.cluster.devices();
  for (std::int64_t dp = 1; dp <= std::min(devices, options.global_batch); ++dp) {
    if (options.allow_uneven_batch || options.global_batch % dp == 0) all[1].push_back(dp);
  }
  all[2].resize(
      std::min<std::size_t>(problem.graph.layers.size(), static_cast<std::size_t>(devices)));
  std::iota(all[2].begin(), all[2].end(), 1);
  all[3] = options.vpp;
  model::PlanOptions given = options;
  for (std::size_t i = 0; i < kDegrees; ++i) {
    util::sort_unique(all[i]);
    const List& wanted = list_of(given, i);
    if (wanted.empty()) continue;
    std::erase_if(all[i], [&](std::int64_t value) {
      return std::find(wanted.begin(), wanted.end(), value) == wanted.end();
    });
  }
  return all;
}

/// The best plan of a part of the space.
struct Best {
  Space space;
  Finding finding;
};

/// The K best plans of different strategies, after Lawler (A procedure for computing the K best
/// solutions to discrete optimization problems, Management Science 18, 1972): the space without the
/// best plan's strategy falls into parts that share its first degrees and differ in the next, and
/// the next best plan is the best of one of the parts.
class TopQuestion {
 public:
  TopQuestion(const Flags& flags, const Inquiry& inquiry) : flags_(flags), inquiry_(inquiry) {}

  ExitCode answer() {
    std::optional<PlanOutput> output;
    inquiry_.ranks().together([&] {
      if (inquiry_.ranks().speaks()) output.emplace(flags_);
    });
    ask_whole();
    while (std::ssize(found_) < *flags_.top) {
      const std::int64_t next = inquiry_.agree(fastest());
      if (next < 0) break;
      take(static_cast<std::size_t>(next));
      if (std::ssize(found_) < *flags_.top) split(found_.back());
    }
    ExitCode code = ExitCode::kDone;
    inquiry_.ranks().together([&] {
      if (inquiry_.ranks().speaks()) code = print(*output);
    });
    return inquiry_.ranks().agree(code);
  }

 private:
  void ask_whole() {
    Best& best = open_.emplace_back();
    best.finding = inquiry_.ask(flags_);
    best.space = whole_space(best.finding.setup.problem);
    if (!inquiry_.ranks().speaks()) return;
    print_remarks(flags_, best.finding.setup);
    if (!best.finding.fits()) nothing_ = true;
    stopped_ = best.finding.plan->search.stopped;
  }

  /// Of the open parts; -1: none has a plan. On the first rank.
  std::int64_t fastest() const {
    std::int64_t best = -1;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (!open_[i].finding.fits()) continue;
      if (best < 0 || open_[i].finding.plan->iteration_time_s <
                          open_[static_cast<std::size_t>(best)].finding.plan->iteration_time_s) {
        best = static_cast<std::int64_t>(i);
      }
    }
    return best;
  }

  void take(std::size_t index) {
    found_.push_back(std::move(open_[index]));
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  /// Searches the parts of a space that its best plan's strategy leaves. *Collective.*
  void split(const Best& best) {
    // Lists that the first rank alone knows are not needed on the others.
    Space fixed = best.space;
    Key key{};
    if (best.finding.plan) key = key_of(*best.finding.plan, best.finding.setup.problem.graph);
    for (std::size_t i = 0; i < kDegrees; ++i) {
      Best part{fixed, {}};
      std::erase(part.space[i], key[i]);
      fixed[i] = {key[i]};
      if (inquiry_.agree(part.space[i].empty() ? 1 : 0) != 0) continue;
      if (inquiry_.over()) {
        stopped_ = true;
        return;
      }
      part.finding = inquiry_.ask(flags_, [&part](model::Problem& problem) {
        for (std::size_t d = 0; d < kDegrees; ++d) list_of(problem.options, d) = part.space[d];
      });
      if (part.finding.plan) stopped_ = stopped_ || part.finding.plan->search.stopped;
      open_.push_back(std::move(part));
    }
  }

  ExitCode print(PlanOutput& output) const {
    const Finding& first = nothing_ ? open_.front().finding : found_.front().finding;
    const model::Plan& plan = *first.plan;
    output.write(plan, first.setup, {.fold_stages = !flags_.verbose, .breakdown = flags_.verbose},
                 with_member(plan_document(plan, first.setup), "top", json()),
                 nothing_ ? "" : '\n' + text());
    return stopped_ ? ExitCode::kStopped : exit_code_of(plan);
  }

  using Term = std::pair<const char*, double model::TimeSplit::*>;
  static constexpr std::array<Term, 6> kTerms{
      {{"compute", &model::TimeSplit::compute_s},
       {"recompute", &model::TimeSplit::recompute_s},
       {"collectives", &model::TimeSplit::collective_s},
       {"transfers", &model::TimeSplit::pipeline_s},
       {"data parallel", &model::TimeSplit::data_parallel_s},
       {"bubble", &model::TimeSplit::bubble_s}}};

  Json json() const {
    Json rows = Json::array();
    for (const Best& best : found_) {
      const model::Plan& plan = *best.finding.plan;
      const Key key = key_of(plan, best.finding.setup.problem.graph);
      Json row{{"iteration_time_s", plan.iteration_time_s}};
      for (std::size_t i = 0; i < kDegrees; ++i) row[kNames[i]] = key[i];
      row["dp_inner"] = plan.strategy.dp_inner;
      row["devices"] = model::devices_used(plan);
      row["memory_bytes"] = peak_bytes(plan);
      row["time_split"] = {{"compute_s", plan.split.compute_s},
                           {"recompute_s", plan.split.recompute_s},
                           {"collective_s", plan.split.collective_s},
                           {"pipeline_s", plan.split.pipeline_s},
                           {"data_parallel_s", plan.split.data_parallel_s},
                           {"bubble_s", plan.split.bubble_s}};
      rows.push_back(std::move(row));
    }
    return rows;
  }

  /// Columns in which all plans are alike are left out.
  static std::vector<std::size_t> telling(const std::vector<std::vector<std::string>>& rows,
                                          std::size_t columns, std::string_view nothing) {
    std::vector<std::size_t> kept;
    for (std::size_t c = 0; c < columns; ++c) {
      const bool any =
          std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row[c] != nothing; });
      if (any) kept.push_back(c);
    }
    return kept;
  }

  /// The first plan's times, and by how much the others' are longer or shorter, term by term.
  std::string text() const {
    constexpr auto kRight = Table::Align::kRight;
    const std::array<std::pair<const char*, std::size_t>, 6> degrees{
        {{"dp", 1}, {"pp", 2}, {"tp", 4}, {"cp", 5}, {"ep", 6}, {"mbs", 0}}};
    const model::Plan& first = *found_.front().finding.plan;
    std::vector<std::vector<std::string>> of_degrees, of_terms;
    for (const Best& best : found_) {
      const model::Plan& plan = *best.finding.plan;
      const Key key = key_of(plan, best.finding.setup.problem.graph);
      auto& row = of_degrees.emplace_back();
      for (const auto& [name, degree] : degrees) row.push_back(fmt::format("{}", key[degree]));
      if (key[3] > 1) row[1] += fmt::format("×{}", key[3]);
      auto& terms = of_terms.emplace_back();
      const bool is_first = &best == &found_.front();
      for (const auto& [name, of] : kTerms) {
        const double seconds = plan.split.*of - (is_first ? 0 : first.split.*of);
        terms.push_back(signed_seconds(seconds, !is_first));
      }
    }
    std::vector<std::vector<std::string>> differences(of_terms.begin() + 1, of_terms.end());
    const auto shown_degrees = telling(of_degrees, degrees.size(), "1");
    const auto shown_terms = differences.empty() ? telling(of_terms, kTerms.size(), "0 s")
                                                 : telling(differences, kTerms.size(), "=");
    std::vector<Table::Column> columns{{"", kRight}, {"iteration", kRight}, {"slower", kRight}};
    for (const std::size_t c : shown_degrees) columns.push_back({degrees[c].first, kRight});
    columns.push_back({"GiB", kRight});
    for (const std::size_t c : shown_terms) columns.push_back({kTerms[c].first, kRight});
    Table table(columns);
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const model::Plan& plan = *found_[i].finding.plan;
      const double slower = plan.iteration_time_s / first.iteration_time_s - 1;
      std::vector<std::string> row{fmt::format("{}", i + 1),
                                   util::format_seconds(plan.iteration_time_s),
                                   i == 0 ? kNothing : percent(slower)};
      for (const std::size_t c : shown_degrees) row.push_back(of_degrees[i][c]);
      row.push_back(gibibytes(peak_bytes(plan)));
      for (const std::size_t c : shown_terms) row.push_back(of_terms[i][c]);
      table.add(row);
    }
    std::string text =
        "best plans of different strategies, and what of their time differs from the first's\n" +
        table.text(0);
    if (std::ssize(found_) < *flags_.top) {
      text += fmt::format("{}\n", stopped_ ? "stopped before more were found"
                                           : "no other strategy has a plan that fits");
    }
    return text;
  }

  static std::string signed_seconds(double seconds, bool with_sign) {
    constexpr double kNoDifference = 1e-9;
    if (std::abs(seconds) < kNoDifference) return with_sign ? "=" : "0 s";
    const std::string text = util::format_seconds(std::abs(seconds));
    return !with_sign ? text : (seconds < 0 ? "−" : "+") + text;
  }

  const Flags& flags_;
  const Inquiry& inquiry_;
  std::vector<Best> found_;
  std::vector<Best> open_;
  bool nothing_ = false;  ///< fits; on the first rank
  bool stopped_ = false;  ///< on the first rank
};

}  // namespace

ExitCode answer_top(const Flags& flags, const Inquiry& inquiry) {
  return TopQuestion(flags, inquiry).answer();
}

}  // namespace nestplan::cli

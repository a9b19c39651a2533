#include "cli/cost_margins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cli/nothing.hpp"
#include "cli/plan_report.hpp"
#include "cli/text.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/placed.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStepsPerDoubling = 8;
constexpr double kPrecision = 1e-7;    ///< of factors
constexpr double kFaster = 1e-9;       ///< by such a share at least: the rest is rounding
constexpr double kRightBefore = 1e-4;  ///< how far before a crossing is searched, as a share

/// A plan and its rivals, under costs of which one term is scaled.
class Contest {
 public:
  Contest(const model::Problem& problem, const std::vector<Finding>& plans) : problem_(problem) {
    for (const Finding& finding : plans) {
      plans_.push_back(*finding.plan);
      choices_.push_back(cost::placed(*finding.plan));
    }
  }

  const model::Plan& plan(std::size_t i) const { return plans_[i]; }

  /// The index of the newcomer.
  std::size_t add(const model::Plan& plan) {
    plans_.push_back(plan);
    choices_.push_back(cost::placed(plan));
    return plans_.size() - 1;
  }

  /// Iteration times of the plans with these indices. Whether memory suffices has been settled.
  std::vector<double> times(const CostTerm& term, double factor,
                            const std::vector<std::size_t>& indices) const {
    model::Problem scaled = problem_;
    term.scale(scaled, factor);
    const auto network = network::make_network(scaled.cluster);
    std::vector<double> seconds;
    for (const std::size_t i : indices) {
      seconds.push_back(cost::evaluate(scaled, *network, choices_[i]).iteration_time_s);
    }
    return seconds;
  }

  /// The fastest of `rivals` that is faster than the first plan.
  std::optional<std::size_t> winner(const CostTerm& term, double factor,
                                    std::vector<std::size_t> rivals) const {
    rivals.insert(rivals.begin(), 0);
    const std::vector<double> seconds = times(term, factor, rivals);
    const auto fastest = std::min_element(seconds.begin(), seconds.end());
    if (*fastest >= seconds.front() * (1 - kFaster)) return std::nullopt;
    return rivals[static_cast<std::size_t>(fastest - seconds.begin())];
  }

  std::vector<std::size_t> rivals() const {
    std::vector<std::size_t> all(plans_.size() - 1);
    std::iota(all.begin(), all.end(), 1);
    return all;
  }

  /// Where somebody becomes faster between the factors `calm`, where nobody is, and `won`.
  MarginSide bisect(const CostTerm& term, double calm, double won,
                    const std::vector<std::size_t>& among) const {
    std::size_t fastest = *winner(term, won, among);
    while (std::abs(won - calm) > kPrecision * calm) {
      const double middle = std::sqrt(calm * won);
      if (const auto there = winner(term, middle, among)) {
        won = middle;
        fastest = *there;
      } else {
        calm = middle;
      }
    }
    return {won, plans_[fastest], false};
  }

  /// Up from 1, or down for the direction -1.
  MarginSide first_crossing(const CostTerm& term, int direction) const {
    const auto steps = std::lround(std::log2(kMostOff) * kStepsPerDoubling);
    double calm = 1;
    for (int i = 1; i <= steps; ++i) {
      const double factor = std::exp2(static_cast<double>(direction * i) / kStepsPerDoubling);
      if (winner(term, factor, rivals())) return bisect(term, calm, factor, rivals());
      calm = factor;
    }
    return {};
  }

 private:
  const model::Problem& problem_;
  std::vector<model::Plan> plans_;
  std::vector<cost::PlacedPlan> choices_;
};

/// The margins of all terms. The first rank evaluates, all of them search.
class Margins {
 public:
  Margins(const Flags& flags, const Inquiry& inquiry, const BestPlans& best)
      : flags_(flags), inquiry_(inquiry), problem_(best.first().setup.problem) {
    inquiry_.ranks().together([&] {
      if (!inquiry_.ranks().speaks()) return;
      contest_.emplace(problem_, best.found());
      key_ = key_of(contest_->plan(0), problem_.graph);
    });
  }

  std::vector<CostMargin> all(bool search) {
    std::vector<CostMargin> margins;
    for (const CostTerm& term : cost_terms(problem_)) {
      CostMargin& margin = margins.emplace_back(CostMargin{term.name, {}, {}});
      inquiry_.ranks().together([&] {
        if (!inquiry_.ranks().speaks()) return;
        margin.cheaper = contest_->first_crossing(term, -1);
        margin.dearer = contest_->first_crossing(term, 1);
      });
      if (!search) continue;
      confirm(term, 1 / kMostOff, margin.cheaper);
      confirm(term, kMostOff, margin.dearer);
    }
    return margins;
  }

 private:
  /// Searches right before the crossing, or at `last` where there is none, as often as another
  /// strategy turns up. *Collective.*
  void confirm(const CostTerm& term, double last, MarginSide& side) {
    constexpr int kMostRounds = 20;
    for (int round = 0; round < kMostRounds && !inquiry_.over(); ++round) {
      const double factor = right_before(side, last);
      const Finding finding =
          inquiry_.ask(flags_, [&](model::Problem& problem) { term.scale(problem, factor); });
      std::int64_t settled = 0;
      inquiry_.ranks().together([&] {
        if (inquiry_.ranks().speaks()) settled = settle(term, factor, finding, side) ? 1 : 0;
      });
      if (inquiry_.agree(settled) != 0) break;
    }
  }

  static double right_before(const MarginSide& side, double last) {
    if (!side.factor) return last;
    return *side.factor > 1 ? std::max(1.0, *side.factor * (1 - kRightBefore))
                            : std::min(1.0, *side.factor * (1 + kRightBefore));
  }

  /// Whether `finding` at `factor` ends the question. Else a strategy that nobody knew is faster
  /// there, and `side` is now about it.
  bool settle(const CostTerm& term, double factor, const Finding& finding, MarginSide& side) {
    if (finding.plan->search.stopped) return true;
    side.searched = true;
    if (key_of(*finding.plan, problem_.graph) == key_ || factor == 1) return true;
    const std::size_t newcomer = contest_->add(*finding.plan);
    if (!contest_->winner(term, factor, {newcomer})) return true;
    side = contest_->bisect(term, 1, factor, {newcomer});
    return false;
  }

  const Flags& flags_;
  const Inquiry& inquiry_;
  const model::Problem& problem_;
  std::optional<Contest> contest_;  ///< on the first rank
  StrategyKey key_{};               ///< of its first plan
};

/// By how much a term is off there, as a share.
std::optional<double> share_of(const MarginSide& side) {
  if (!side.factor) return std::nullopt;
  return std::abs(*side.factor - 1);
}

/// The degrees of a strategy that differ from those of another: "dp 16 · pp 8".
std::string difference(const StrategyKey& of, const StrategyKey& from) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kDegrees; ++i) {
    const char* const name = i == kMicroBatch ? "micro-batch" : kDegreeNames[i];
    if (of[i] != from[i]) parts.push_back(fmt::format("{} {}", name, of[i]));
  }
  return fmt::format("{}", fmt::join(parts, " · "));
}

Json side_json(const MarginSide& side, const model::Graph& graph) {
  Json json{{"share", or_null(share_of(side))},
            {"factor", or_null(side.factor)},
            {"winner", nullptr},
            {"searched", side.searched}};
  if (!side.factor) return json;
  const StrategyKey key = key_of(side.winner, graph);
  json["winner"] = Json::object();
  for (std::size_t i = 0; i < kDegrees; ++i) json["winner"][kDegreeNames[i]] = key[i];
  return json;
}

bool any_searched(const std::vector<CostMargin>& margins) {
  return std::any_of(margins.begin(), margins.end(), [](const CostMargin& margin) {
    return margin.cheaper.searched || margin.dearer.searched;
  });
}

}  // namespace

std::vector<CostMargin> cost_margins(const Flags& flags, const Inquiry& inquiry,
                                     const BestPlans& best, bool search) {
  return Margins(flags, inquiry, best).all(search);
}

std::optional<double> robust_share(const std::vector<CostMargin>& margins) {
  std::optional<double> least;
  for (const CostMargin& margin : margins) {
    for (const MarginSide& side : {margin.cheaper, margin.dearer}) {
      const std::optional<double> share = share_of(side);
      if (share) least = std::min(least.value_or(*share), *share);
    }
  }
  return least;
}

std::string margins_text(const std::vector<CostMargin>& margins, const BestPlans& best) {
  constexpr auto kRight = Table::Align::kRight;
  const model::Graph& graph = best.first().setup.problem.graph;
  const StrategyKey key = key_of(*best.first().plan, graph);
  Table table({{"term"}, {"cheaper by", kRight}, {"then"}, {"dearer by", kRight}, {"then"}});
  bool searched = true;
  for (const CostMargin& margin : margins) {
    std::vector<std::string> row{margin.term};
    for (const MarginSide& side : {margin.cheaper, margin.dearer}) {
      const std::optional<double> share = share_of(side);
      row.push_back(share ? percent(*share) : kNothing);
      row.push_back(share ? difference(key_of(side.winner, graph), key) : "");
      searched = searched && side.searched;
    }
    table.add(row);
  }
  const std::size_t plans = best.found().size();
  if (!searched && plans == 1) {
    return labelled_paragraph(
        "robust", best.exhausted() ? "to any one term: no other strategy has a plan that fits"
                                   : "not known, nothing is compared: --top 2 or more compares "
                                     "plans, --explain searches all strategies");
  }
  const std::string rivals =
      searched ? "another strategy" : fmt::format("another of these {} plans", plans);
  const std::optional<double> share = robust_share(margins);
  const std::string robust =
      share ? fmt::format("to ±{} of any one term", percent(*share))
            : fmt::format("to any one term that is off by a factor of {}", kMostOff);
  const std::string over =
      searched ? "; searched over all strategies" : fmt::format(", over these {} plans", plans);
  return fmt::format("how far one term may be off before {} is faster (–: not by a factor of {})\n",
                     rivals, kMostOff) +
         table.text(2) + labelled_paragraph("robust", robust + over);
}

Json margins_json(const std::vector<CostMargin>& margins, const BestPlans& best) {
  const model::Graph& graph = best.first().setup.problem.graph;
  Json terms = Json::array();
  for (const CostMargin& margin : margins) {
    terms.push_back({{"term", margin.term},
                     {"cheaper", side_json(margin.cheaper, graph)},
                     {"dearer", side_json(margin.dearer, graph)}});
  }
  const bool compared = best.found().size() > 1 || best.exhausted() || any_searched(margins);
  return {{"plans", best.found().size()},
          {"within_factor", compared ? Json(kMostOff) : Json()},
          {"robust_share", or_null(robust_share(margins))},
          {"terms", std::move(terms)}};
}

}  // namespace nestplan::cli

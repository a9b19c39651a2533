#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "nestplan/model/plan_terms.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/text.hpp"
#include "report/sections.hpp"
#include "report/table.hpp"

namespace nestplan::report {
namespace {

using model::kPlanTerms;
using model::PlanTerm;
using util::kNoSeconds;

std::string term_text(double seconds) {
  return std::abs(seconds) < kNoSeconds ? "0" : util::format_seconds(seconds);
}

/// Whether some of the plans differ in a term.
bool is_telling(const PlanTerm& term, const std::vector<Rival>& rivals) {
  return std::any_of(rivals.begin(), rivals.end(), [&](const Rival& rival) {
    return std::abs(rival.split.*term.seconds - rivals.front().split.*term.seconds) >= kNoSeconds;
  });
}

void write_rivals(Html& html, const std::vector<Rival>& rivals) {
  const Rival& first = rivals.front();
  std::vector<Column> columns{
      {"strategy", false, true}, {"iteration", true}, {"slower", true}, {"GiB", true}};
  for (const PlanTerm& term : kPlanTerms) {
    if (is_telling(term, rivals)) columns.push_back({term.name, true});
  }
  std::vector<std::vector<Cell>> rows;
  for (const Rival& rival : rivals) {
    const bool difference = &rival != &first;
    const double slower = rival.iteration_time_s / first.iteration_time_s - 1;
    std::vector<Cell>& row = rows.emplace_back();
    row.emplace_back(rival.strategy);
    row.emplace_back(util::precise_seconds(rival.iteration_time_s));
    row.emplace_back(difference ? "+" + util::percent(slower) : "–");
    row.emplace_back(util::gibibytes(rival.memory_bytes));
    for (const PlanTerm& term : kPlanTerms) {
      if (!is_telling(term, rivals)) continue;
      const double seconds = rival.split.*term.seconds;
      row.emplace_back(difference ? util::difference_text(seconds - first.split.*term.seconds)
                                  : term_text(seconds));
    }
  }
  write_table(html,
              "The best plans of different strategies: the times of the first, and what of the "
              "others' is longer (+) or shorter (−)",
              columns, rows);
}

std::vector<Cell> cells_of(const std::optional<Margin::Side>& side) {
  if (!side) return {std::string("–"), std::string("no other plan")};
  return {util::percent(side->share), side->winner};
}

void write_margins(Html& html, const std::vector<Margin>& margins) {
  std::vector<std::vector<Cell>> rows;
  for (const Margin& margin : margins) {
    std::vector<Cell>& row = rows.emplace_back();
    row.emplace_back(margin.term);
    for (const auto& side : {margin.cheaper, margin.dearer}) {
      for (Cell& cell : cells_of(side)) row.push_back(std::move(cell));
    }
  }
  write_table(html, "How far one term of the costs may be off before another plan is faster",
              {{"term", false, true},
               {"cheaper by", true},
               {"then faster", false, true},
               {"dearer by", true},
               {"then faster", false, true}},
              rows);
}

void write_neighbours(Html& html, const std::vector<Neighbour>& neighbours) {
  std::vector<std::vector<Cell>> rows;
  for (const Neighbour& neighbour : neighbours) {
    rows.push_back({neighbour.change, neighbour.verdict});
  }
  write_table(html, "Plans one choice away",
              {{"change", false, true}, {"what comes of it", false, true}}, rows);
}

}  // namespace

void write_alternatives(Html& html, const Alternatives& alternatives) {
  if (!alternatives.neighbours.empty()) write_neighbours(html, alternatives.neighbours);
  if (!alternatives.rivals.empty()) write_rivals(html, alternatives.rivals);
  if (!alternatives.margins.empty()) write_margins(html, alternatives.margins);
  if (!alternatives.empty()) return;
  if (!alternatives.left_out.empty()) {
    html.add("p", "Left out, since they are about another plan: " + alternatives.left_out + ".");
    return;
  }
  html.add("p",
           "The plan's file does not tell of other plans. Planned with --explain or --top 5 "
           "and -o, it does: the best plans of other strategies, and what each of them loses.");
}

}  // namespace nestplan::report

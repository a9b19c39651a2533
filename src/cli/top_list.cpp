#include "cli/top_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/nothing.hpp"
#include "cli/plan_report.hpp"
#include "cli/plan_terms.hpp"
#include "cli/text.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Columns in which all plans are alike are left out.
std::vector<std::size_t> telling(const std::vector<std::vector<std::string>>& rows,
                                 std::size_t columns, std::string_view nothing) {
  std::vector<std::size_t> kept;
  for (std::size_t c = 0; c < columns; ++c) {
    const bool any =
        std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row[c] != nothing; });
    if (any) kept.push_back(c);
  }
  return kept;
}

}  // namespace

nlohmann::ordered_json top_json(const BestPlans& best) {
  Json rows = Json::array();
  for (const Finding& finding : best.found()) {
    const model::Plan& plan = *finding.plan;
    const StrategyKey key = key_of(plan, finding.setup.problem.graph);
    Json row{{"iteration_time_s", plan.iteration_time_s}};
    for (std::size_t i = 0; i < kDegrees; ++i) row[kDegreeNames[i]] = key[i];
    row["dp_inner"] = plan.strategy.dp_inner;
    row["devices"] = model::devices_used(plan);
    row["memory_bytes"] = peak_bytes(plan);
    row["time_split"] = terms_json(plan.split);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string top_text(const BestPlans& best, std::int64_t wanted) {
  const std::vector<Finding>& found = best.found();
  constexpr auto kRight = Table::Align::kRight;
  constexpr std::array<std::pair<const char*, Degree>, 6> degrees{
      {{"dp", kDp}, {"pp", kPp}, {"tp", kTp}, {"cp", kCp}, {"ep", kEp}, {"mbs", kMicroBatch}}};
  const model::Plan& first = *found.front().plan;
  std::vector<std::vector<std::string>> of_degrees, of_terms;
  for (const Finding& finding : found) {
    const model::Plan& plan = *finding.plan;
    const StrategyKey key = key_of(plan, finding.setup.problem.graph);
    auto& row = of_degrees.emplace_back();
    for (const auto& [name, degree] : degrees) row.push_back(fmt::format("{}", key[degree]));
    if (key[kVpp] > 1) row[1] += fmt::format("×{}", key[kVpp]);
    auto& terms = of_terms.emplace_back();
    const bool is_first = &finding == &found.front();
    for (const auto& [name, of] : kPlanTerms) {
      terms.push_back(is_first ? term_text(plan.split.*of)
                               : difference_text(plan.split.*of - first.split.*of));
    }
  }
  std::vector<std::vector<std::string>> differences(of_terms.begin() + 1, of_terms.end());
  const auto shown_degrees = telling(of_degrees, degrees.size(), "1");
  const auto shown_terms = differences.empty() ? telling(of_terms, kPlanTerms.size(), "0 s")
                                               : telling(differences, kPlanTerms.size(), "=");
  std::vector<Table::Column> columns{{"", kRight}, {"iteration", kRight}, {"slower", kRight}};
  for (const std::size_t c : shown_degrees) columns.push_back({degrees[c].first, kRight});
  columns.push_back({"GiB", kRight});
  for (const std::size_t c : shown_terms) columns.push_back({kPlanTerms[c].name, kRight});
  Table table(columns);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const model::Plan& plan = *found[i].plan;
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
  if (std::ssize(found) < wanted) {
    text += fmt::format("{}\n", best.stopped() ? "stopped before more were found"
                                               : "no other strategy has a plan that fits");
  }
  return text;
}

}  // namespace nestplan::cli

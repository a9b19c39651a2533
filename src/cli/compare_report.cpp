#include "cli/compare_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/compared_methods.hpp"
#include "cli/csv.hpp"
#include "cli/nothing.hpp"
#include "cli/plan_report.hpp"
#include "cli/text.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string title_of(const Setup& setup) {
  const model::Problem& problem = setup.problem;
  return fmt::format("{} on {}: {}, global batch {}", printable(problem.graph.name),
                     printable(problem.cluster.name), counted(problem.cluster.devices(), "device"),
                     util::format_count(problem.options.global_batch));
}

/// What stages do, as "none", or "none, full" where they differ.
template <typename Name>
std::string names_of_stages(const model::Plan& plan, Name name_of) {
  std::vector<std::string> names;
  for (const model::StagePlan& stage : plan.stages) {
    const std::string name = name_of(stage);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string recompute_of(const model::Plan& plan) {
  return names_of_stages(
      plan, [](const model::StagePlan& stage) { return std::string(to_string(stage.recompute)); });
}

std::string zero_of(const model::Plan& plan) {
  return names_of_stages(
      plan, [](const model::StagePlan& stage) { return fmt::format("{}", stage.zero); });
}

std::string plan_text(const ComparedPlan& row, const Setup& setup) {
  if (!row.fits()) return printable(row.plan.reason);
  return fmt::format("{} · recompute {} · ZeRO {}", strategy_text(row.plan, setup.problem.graph),
                     recompute_of(row.plan), zero_of(row.plan));
}

/// Before what it came to, if it could have come to more.
std::string how_ended(const model::SearchStats& search) {
  return (search.stopped ? "stopped early; " : "") +
         (search.limit.empty() ? "" : search.limit + "; ");
}

double samples_per_s(const ComparedPlan& row, const Setup& setup) {
  return static_cast<double>(setup.problem.options.global_batch) / row.plan.iteration_time_s;
}

Json strategy_json(const model::Plan& plan, const model::Graph& graph) {
  const model::Strategy& first =
      graph.strategies[static_cast<std::size_t>(plan.stages.front().strategy)];
  return {{"dp", plan.strategy.dp},
          {"dp_inner", plan.strategy.dp_inner},
          {"pp", plan.strategy.pp},
          {"vpp", plan.strategy.vpp},
          {"tp", first.tp},
          {"cp", first.cp},
          {"ep", first.ep},
          {"micro_batch", plan.strategy.micro_batch},
          {"recompute", recompute_of(plan)},
          {"zero", zero_of(plan)}};
}

/// Figures of a method without a plan are null.
Json row_json(const Comparison& comparison, const ComparedPlan& row, const Setup& setup) {
  const auto figure = [&](double value) { return row.fits() ? Json(value) : Json(nullptr); };
  return {{"method", row.method},
          {"status", row.fits() ? "feasible" : "infeasible"},
          {"iteration_time_s", figure(row.plan.iteration_time_s)},
          {"samples_per_s", row.fits() ? Json(samples_per_s(row, setup)) : Json(nullptr)},
          {"throughput_over_manual", or_null(comparison.over_manual(row))},
          {"memory_bytes", figure(peak_bytes(row.plan))},
          {"devices", row.fits() ? Json(model::devices_used(row.plan)) : Json(nullptr)},
          {"strategy", row.fits() ? strategy_json(row.plan, setup.problem.graph) : Json(nullptr)},
          {"reason", row.fits() ? Json(nullptr) : Json(row.plan.reason)},
          {"stopped", row.plan.search.stopped},
          {"limit", row.plan.search.limit.empty() ? Json(nullptr) : Json(row.plan.search.limit)},
          {"search_s", row.plan.search.seconds}};
}

/// Members of `strategy` become fields of their own.
Json flat_row(const Json& row) {
  constexpr const char* kDegrees[] = {"dp", "dp_inner", "pp",          "vpp",       "tp",
                                      "cp", "ep",       "micro_batch", "recompute", "zero"};
  Json flat = Json::object();
  for (const auto& [key, value] : row.items()) {
    if (key != "strategy") {
      flat[key] = value;
      continue;
    }
    for (const char* degree : kDegrees) {
      flat[degree] = value.is_null() ? Json(nullptr) : value.at(degree);
    }
  }
  return flat;
}

}  // namespace

std::optional<double> Comparison::over_manual(const ComparedPlan& row) const {
  const auto manual = std::find_if(rows.begin(), rows.end(),
                                   [](const ComparedPlan& r) { return r.method == "manual"; });
  if (manual == rows.end() || !manual->fits() || !row.fits()) return std::nullopt;
  return manual->plan.iteration_time_s / row.plan.iteration_time_s;
}

std::string comparison_text(const Comparison& comparison, const Setup& setup, bool in_full) {
  using enum Table::Align;
  constexpr std::size_t kPlan = 7;
  constexpr std::size_t kWidth = 120;
  Table table({{"method"},
               {"iteration", kRight},
               {"over manual", kRight},
               {"GiB", kRight},
               {"search", kRight},
               {"ZeRO"},
               {"recompute"},
               {"plan"}});
  for (const ComparedPlan& row : comparison.rows) {
    const auto over = comparison.over_manual(row);
    const std::string ended = how_ended(row.plan.search);
    const std::string search = util::format_seconds(row.plan.search.seconds);
    if (!row.fits()) {
      table.add({row.method, "X", kNothing, kNothing, search, kNothing, kNothing,
                 ended + printable(row.plan.reason)});
      continue;
    }
    table.add({row.method, precise_seconds(row.plan.iteration_time_s),
               over ? fmt::format("{:.2f}×", *over) : kNothing, gibibytes(peak_bytes(row.plan)),
               search, zero_of(row.plan), recompute_of(row.plan),
               ended + strategy_text(row.plan, setup.problem.graph)});
  }
  return title_of(setup) + '\n' + table.text(kPlan, in_full ? std::string::npos : kWidth);
}

std::string comparison_json(const Comparison& comparison, const Setup& setup) {
  const model::Problem& problem = setup.problem;
  Json rows = Json::array();
  for (const ComparedPlan& row : comparison.rows) {
    rows.push_back(row_json(comparison, row, setup));
  }
  const Json document{{"model", problem.graph.name},
                      {"cluster", problem.cluster.name},
                      {"devices", problem.cluster.devices()},
                      {"global_batch", problem.options.global_batch},
                      {"objective", to_string(problem.options.objective)},
                      {"rows", rows}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string comparison_csv(const Comparison& comparison, const Setup& setup) {
  std::vector<Json> records;
  for (const ComparedPlan& row : comparison.rows) {
    records.push_back(flat_row(row_json(comparison, row, setup)));
  }
  return csv_text(records);
}

namespace {

/// What a reader who does not see the chart is told.
std::string description_of(const Comparison& comparison, const Setup& setup) {
  std::string text = "Samples per second by method:";
  const char* separator = " ";
  for (const ComparedPlan& row : comparison.rows) {
    text += row.fits()
                ? fmt::format("{}{} {:.4g}", separator, row.method, samples_per_s(row, setup))
                : fmt::format("{}{} has no plan", separator, row.method);
    separator = ", ";
  }
  return text + ".";
}

}  // namespace

std::string comparison_svg(const Comparison& comparison, const Setup& setup) {
  constexpr int kWidth = 860, kLeft = 110, kBars = 560, kTop = 56, kRow = 46, kBar = 20;
  constexpr std::size_t kCharacters = 110;  // of small text that fit beside the names
  const int height = kTop + kRow * static_cast<int>(comparison.rows.size()) + 16;
  double most = 0;
  for (const ComparedPlan& row : comparison.rows) {
    if (row.fits()) most = std::max(most, samples_per_s(row, setup));
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\" aria-labelledby=\"title desc\" "
      "font-family=\"sans-serif\" font-size=\"14\">\n"
      "<title id=\"title\">{2}</title>\n<desc id=\"desc\">{3}</desc>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n"
      "<text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"bold\">{2}</text>\n",
      kWidth, height, util::escaped(title_of(setup)),
      util::escaped(description_of(comparison, setup)));
  int y = kTop;
  for (const ComparedPlan& row : comparison.rows) {
    const bool ours = row.method == kPlanner;
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\"{}>{}</text>\n", kLeft - 10,
                       y + 15, ours ? " font-weight=\"bold\"" : "", util::escaped(row.method));
    if (row.fits()) {
      const auto over = comparison.over_manual(row);
      const int length = std::max(1, static_cast<int>(kBars * samples_per_s(row, setup) / most));
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#1a1a1a\"/>\n"
          "<text x=\"{}\" y=\"{}\">{:.4g} samples/s{}</text>\n",
          kLeft, y, length, kBar, ours ? "#1f4e79" : "#c9d3dd", kLeft + length + 8, y + 15,
          samples_per_s(row, setup), over ? fmt::format(" ({:.2f}×)", *over) : "");
    } else {
      svg += fmt::format("<text x=\"{}\" y=\"{}\" font-weight=\"bold\">X</text>\n", kLeft, y + 15);
    }
    svg += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#404040\">{}</text>\n",
                       kLeft, y + 33, util::escaped(shortened(plan_text(row, setup), kCharacters)));
    y += kRow;
  }
  return svg + "</svg>\n";
}

}  // namespace nestplan::cli

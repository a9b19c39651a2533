#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "cli/console.hpp"
#include "cli/describe.hpp"
#include "cli/search_record.hpp"
#include "cli/text.hpp"
#include "nestplan/io/checkpoint.hpp"
#include "nestplan/util/text.hpp"
#include "solver/saved_search.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

bool starts_like_hdf5(const std::string& path) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::array<char, kSignature.size()> start{};
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  return std::string_view(start.data(), static_cast<std::size_t>(file.gcount())) == kSignature;
}

/// "--global-batch 512 --tp 2,4": what was said besides the files, in lines of moderate length.
std::string options_text(const SearchRecord& record) {
  constexpr std::size_t kWidth = 100;
  std::string lines, line;
  const auto end_line = [&] {
    lines += described(lines.empty() ? "options" : "", printable(line));
    line.clear();
  };
  for (const auto& [name, values] : record.values) {
    if (name == "model" || name == "graph" || name == "cluster") continue;
    std::string word = "--" + name;
    if (values != std::vector<std::string>{"true"}) {
      word += fmt::format(" {}", fmt::join(values, ","));
    }
    if (!line.empty() && display_width(line) + display_width(word) >= kWidth) end_line();
    line += (line.empty() ? "" : " ") + word;
  }
  end_line();
  return lines;
}

std::string step_name(solver::VisitState::Step step) {
  using Step = solver::VisitState::Step;
  switch (step) {
    case Step::kSeed:
      return "a first plan";
    case Step::kScan:
      return "all depths";
    case Step::kRefine:
      return "one depth";
    case Step::kNarrow:
      return "bottlenecks of one depth";
    case Step::kDone:
      return "done";
  }
  throw InternalError("a step without a name");
}

struct TableShare {
  double done = 0;
  std::string depths;
  const solver::SavedVisit* visit = nullptr;
};

/// The tables in progress.
std::vector<TableShare> tables_of(const solver::SavedSearch& search) {
  std::vector<TableShare> tables;
  for (const solver::SavedVisit& visit : search.visits) {
    const std::vector<std::int64_t>& depths = visit.state.request.depths;
    TableShare table;
    table.visit = &visit;
    table.done = static_cast<double>(std::max<std::int64_t>(0, visit.next)) /
                 static_cast<double>(std::max<std::int64_t>(1, search.downsets));
    if (!depths.empty()) {
      table.depths = depths.size() == 1
                         ? counted(depths.front(), "stage")
                         : fmt::format("{} to {} stages", depths.front(), depths.back());
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

/// How far a search has come that is not done.
void describe_progress(const solver::SavedSearch& search, Description& d) {
  const auto in_work = static_cast<std::int64_t>(search.visits.size());
  const auto waiting = static_cast<std::int64_t>(search.waiting.size());
  const std::int64_t done = search.listed - waiting - in_work;
  d.text +=
      described("step", fmt::format("{} of {}", search.rung + 1, search.rungs)) +
      described("progress", fmt::format("{} configuration{}: {} done, {} in work, {} waiting",
                                        util::format_count(search.listed),
                                        search.listed == 1 ? "" : "s", util::format_count(done),
                                        util::format_count(in_work), util::format_count(waiting)));
  d.text += described("tables", fmt::format("{} filled", util::format_count(search.tables)));
  Json tables = Json::array();
  for (const TableShare& table : tables_of(search)) {
    d.text += described("", fmt::format("{} of one for {}, {} ({} cells)", percent(table.done),
                                        step_name(table.visit->state.step), table.depths,
                                        util::format_count(table.visit->capacity)));
    tables.push_back({{"configuration", table.visit->configuration},
                      {"depths", table.visit->state.request.depths},
                      {"done", table.done},
                      {"cells", table.visit->capacity}});
  }
  const auto known = [](double seconds) { return seconds > 0 ? Json(seconds) : Json(nullptr); };
  d.text +=
      described("best so far", search.best_s > 0 ? precise_seconds(search.best_s) : "no plan yet");
  d.text += described(
      "bound", search.lower_bound_s > 0 ? precise_seconds(search.lower_bound_s) : "not known yet");
  d.text += described("spent", util::format_seconds(search.spent_s));
  d.json["step"] = search.rung + 1;
  d.json["steps"] = search.rungs;
  d.json["configurations"] =
      Json{{"total", search.listed}, {"done", done}, {"in_work", in_work}, {"waiting", waiting}};
  d.json["tables_filled"] = search.tables;
  d.json["tables"] = std::move(tables);
  d.json["best_s"] = known(search.best_s);
  d.json["lower_bound_s"] = known(search.lower_bound_s);
  d.json["spent_s"] = search.spent_s;
}

void describe_finished(const std::string& document, Description& d) {
  const Json plan = Json::parse(document);
  const std::string status = plan.at("status").get<std::string>();
  const Json& best = plan.at("iteration_time_s");
  d.text += described("plan", best.is_null() ? status
                                             : fmt::format("{}, {} per iteration", status,
                                                           precise_seconds(best.get<double>())));
  d.text += described("spent", util::format_seconds(plan.at("search").at("seconds").get<double>()));
  d.json["best_s"] = best;
  d.json["lower_bound_s"] = plan.at("lower_bound_s");
  d.json["spent_s"] = plan.at("search").at("seconds");
  d.json["plan"] = plan;
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  if (starts_like_hdf5(path)) return true;
  std::error_code error;
  const bool is_missing =
      !std::filesystem::exists(path, error) || (std::filesystem::is_regular_file(path, error) &&
                                                std::filesystem::file_size(path, error) == 0);
  return is_missing && starts_like_hdf5(path + ".1");
}

Description describe_checkpoint(const std::string& path) {
  const auto reader = io::open_checkpoint(path, nullptr, [](const std::string& warning) {
    print_message(fmt::format("nestplan: warning: {}", warning));
  });
  const SearchRecord record = SearchRecord::read(*reader);
  const bool finished = reader->has("run/plan");
  const bool begun = reader->has("search/rung");
  const bool newest = std::filesystem::equivalent(reader->path(), path);
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(reader->path()));
  const char* const state = finished ? "done" : begun ? "in progress" : "begun";

  Description d;
  d.text = fmt::format("checkpoint {}\n", printable(reader->path().string())) +
           described("search", state) + described("generation", newest ? "newest" : "previous") +
           described("size", util::format_bytes_binary(static_cast<double>(bytes))) +
           described("written by", "nestplan " + record.version) +
           described(record.values.contains("graph") ? "graph" : "model",
                     printable(record.files.subject.path)) +
           described("cluster", printable(record.files.cluster.path)) + options_text(record);
  d.json = Json{{"kind", "checkpoint"},
                {"file", path},
                {"generation", newest ? "newest" : "previous"},
                {"read", reader->path().string()},
                {"bytes", bytes},
                {"version", record.version},
                {"problem", record.fingerprint},
                {"options", record.values},
                {"state", finished ? "done"
                          : begun  ? "in_progress"
                                   : "begun"}};
  if (finished) {
    describe_finished(reader->text("run/plan"), d);
  } else if (begun) {
    describe_progress(solver::SavedSearch::read(*reader), d);
  }
  return d;
}

}  // namespace nestplan::cli

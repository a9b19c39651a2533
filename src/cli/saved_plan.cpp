#include "cli/saved_plan.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "nestplan/io/files.hpp"
#include "nestplan/model/names.hpp"

namespace nestplan::cli {
namespace {

/// Reads `prefix` and a positive number off the front of `text`.
std::optional<std::int64_t> take_degree(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 1) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return value;
}

/// Adds the degrees of a strategy called like "tp8-mb2"; other names are left to the reader of the
/// whole plan to refuse.
void add_degrees(std::string_view name, NeededDegrees& degrees) {
  const auto tp = take_degree(name, "tp");
  const auto micro_batch = take_degree(name, "-mb");
  if (!tp || !micro_batch || !name.empty()) return;
  degrees.tp.push_back(*tp);
  degrees.micro_batches.push_back(*micro_batch);
}

void sort_unique(std::vector<std::int64_t>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

/// The text at `key` of an object; nothing if there is none.
std::optional<std::string> text_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_string()) return {};
  return object.at(key).get<std::string>();
}

}  // namespace

SavedPlan read_saved_plan(const std::filesystem::path& path) {
  SavedPlan saved;
  saved.text = io::read_text(path);
  const auto document = nlohmann::json::parse(saved.text, nullptr, /*allow_exceptions=*/false);
  const std::vector<std::string> known = model::objective_names();
  saved.objective = text_at(document, "objective");
  if (std::find(known.begin(), known.end(), saved.objective) == known.end()) {
    saved.objective.reset();
  }
  if (document.is_object() && document.contains("stages")) {
    for (const nlohmann::json& stage : document.at("stages")) {
      if (const auto name = text_at(stage, "strategy")) add_degrees(*name, saved.degrees);
    }
  }
  sort_unique(saved.degrees.tp);
  sort_unique(saved.degrees.micro_batches);
  return saved;
}

}  // namespace nestplan::cli

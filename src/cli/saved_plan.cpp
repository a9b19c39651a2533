#include "cli/saved_plan.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/targets/targets.hpp"
#include "nestplan/util/lists.hpp"

namespace nestplan::cli {
namespace {

/// The degrees of the strategies that are called as those of models are; other names are left to
/// the reader of the whole plan to refuse.
NeededDegrees degrees_of(const std::vector<std::string>& strategies) {
  NeededDegrees needed;
  bool inherited = true;
  for (const std::string& name : strategies) {
    const auto d = cost::parse_strategy_id(name);
    if (!d) continue;
    needed.tp.push_back(d->tp);
    needed.cp.push_back(d->cp);
    needed.context_forms.push_back(d->context);
    needed.ep.push_back(d->ep);
    needed.etp.push_back(d->etp);
    needed.micro_batches.push_back(d->micro_batch);
    inherited = inherited && d->etp == d->tp;
  }
  if (inherited) needed.etp.clear();
  for (auto* list : {&needed.tp, &needed.cp, &needed.ep, &needed.etp, &needed.micro_batches}) {
    util::sort_unique(*list);
  }
  util::sort_unique(needed.context_forms);
  return needed;
}

/// The text at `key` of an object; nothing if there is none.
std::optional<std::string> text_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_string()) return {};
  return object.at(key).get<std::string>();
}

/// What its costs were with, where it says so.
std::optional<model::Overlap> overlap_at(const nlohmann::json& document) {
  if (!document.is_object() || !document.contains("strategy")) return {};
  const nlohmann::json& strategy = document.at("strategy");
  if (!strategy.is_object() || !strategy.contains("overlap")) return {};
  const nlohmann::json& shares = strategy.at("overlap");
  model::Overlap overlap;
  for (const auto& [name, share] : model::kOverlapTerms) {
    if (!shares.is_object() || !shares.contains(name) || !shares.at(name).is_number()) continue;
    overlap.*share = std::clamp(shares.at(name).get<double>(), 0.0, 1.0);
  }
  return overlap;
}

/// `name` if it is among `known`; nothing else.
std::optional<std::string> known_of(const std::optional<std::string>& name,
                                    const std::vector<std::string>& known) {
  return std::find(known.begin(), known.end(), name) == known.end() ? std::nullopt : name;
}

}  // namespace

SavedPlan read_saved_plan(const std::filesystem::path& path) {
  SavedPlan saved;
  saved.text = io::read_text(path);
  const auto document = nlohmann::json::parse(saved.text, nullptr, /*allow_exceptions=*/false);
  saved.objective = known_of(text_at(document, "objective"), model::objective_names());
  if (document.is_object() && document.contains("target")) {
    saved.target = known_of(text_at(document.at("target"), "name"), targets::rule_set_names());
  }
  saved.overlap = overlap_at(document);
  if (document.is_object() && document.contains("devices")) {
    const auto& devices = document.at("devices");
    if (devices.is_object() && devices.contains("total") &&
        devices.at("total").is_number_integer()) {
      saved.devices = devices.at("total").get<std::int64_t>();
    }
  }
  std::vector<std::string> strategies;
  if (document.is_object() && document.contains("stages")) {
    for (const nlohmann::json& stage : document.at("stages")) {
      if (auto name = text_at(stage, "strategy")) strategies.push_back(std::move(*name));
    }
  }
  saved.degrees = degrees_of(strategies);
  return saved;
}

}  // namespace nestplan::cli

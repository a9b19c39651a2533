#include <fmt/format.h>

#include <string>
#include <string_view>

#include "cli/describe.hpp"
#include "nestplan/targets/overlap.hpp"
#include "nestplan/targets/targets.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;
using StageLayout = model::StageConstraints::Layout;

const char* name_of(StageLayout layout) {
  switch (layout) {
    case StageLayout::kAny:
      return "any";
    case StageLayout::kFirstLast:
      return "first-last";
    case StageLayout::kEven:
      return "even";
  }
  throw InternalError("a layout without a name");
}

const char* name_of(double model::Overlap::*share) {
  for (const model::OverlapTerm& term : model::kOverlapTerms) {
    if (term.share == share) return term.name;
  }
  throw InternalError("a kind of communication without a name");
}

/// "  name    scope    text", and the source under the text.
std::string line(std::string_view name, std::string_view scope, std::string_view text,
                 std::string_view source) {
  return fmt::format("  {:<24}{:<15}{}\n{:41}[{}]\n", name, scope, text, "", source);
}

std::string rules_text(const targets::RuleSet& set) {
  std::string text = fmt::format("{}: {}\n", set.name(), set.version());
  for (const targets::Rule& rule : set.rules()) {
    text += line(rule.name, to_string(rule.scope), rule.says, rule.source);
  }
  for (const targets::Layout& layout : set.layouts()) {
    text += line(name_of(layout.layout), "layout", layout.how, layout.source);
  }
  for (const targets::HiddenByDefault& hidden : targets::hidden_by_default(set.name())) {
    text += line(fmt::format("{}={}", name_of(hidden.share), hidden.value), "overlap",
                 hidden.setting, hidden.source);
  }
  return text;
}

Json rules_json(const targets::RuleSet& set) {
  Json rules = Json::array();
  for (const targets::Rule& rule : set.rules()) {
    rules.push_back({{"name", rule.name},
                     {"scope", to_string(rule.scope)},
                     {"says", rule.says},
                     {"source", rule.source}});
  }
  Json layouts = Json::array();
  for (const targets::Layout& layout : set.layouts()) {
    layouts.push_back(
        {{"layout", name_of(layout.layout)}, {"how", layout.how}, {"source", layout.source}});
  }
  Json overlap = Json::array();
  for (const targets::HiddenByDefault& hidden : targets::hidden_by_default(set.name())) {
    overlap.push_back({{"what", name_of(hidden.share)},
                       {"share", hidden.value},
                       {"setting", hidden.setting},
                       {"source", hidden.source}});
  }
  return {{"kind", "rules"},
          {"target", set.name()},
          {"version", set.version()},
          {"rules", std::move(rules)},
          {"layouts", std::move(layouts)},
          {"overlap", std::move(overlap)}};
}

}  // namespace

Description describe_rules(std::string_view target) {
  const targets::RuleSet& set = targets::rule_set(target);
  return {rules_text(set), rules_json(set)};
}

}  // namespace nestplan::cli

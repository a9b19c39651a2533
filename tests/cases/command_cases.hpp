#pragma once

#include <string>
#include <vector>

#include "cli/workspace.hpp"

namespace nestplan::cases {

using test::Json;
using test::Outcome;
using test::Words;

/// Runs of the program on files that are made for them.
class CommandCase : public test::Workspace {
 protected:
  /// A cluster of levels, from the nearest up, as (devices or blocks, bandwidth).
  Json cluster(const std::vector<std::pair<int, std::string>>& levels,
               const std::string& memory = "80 GB") const;

  /// A config of the Llama family, small unless told otherwise.
  Json llama(int layers = 8, int hidden = 1024, int heads = 16, int vocabulary = 32000) const;

  /// The same with experts.
  Json mixture(int experts) const;

  /// A graph of layers in a row that take so many seconds each, a third of it forward.
  Json chain(const std::vector<double>& seconds) const;

  /// `plan` on files of this workspace that are called model.json or graph.json, and machine.json.
  Words plan(const std::string& kind, int batch, const Words& more = {}) const;

  /// The plan that it prints, which must be one.
  Json planned(const std::string& kind, int batch, const Words& more = {}) const;

  static std::string value_of(const Json& plan, const std::string& setting);
};

Words operator+(Words a, const Words& b);

/// Without what may differ from run to run.
Json without_search(Json plan);

testing::AssertionResult has(const std::string& text, const std::string& part);

}  // namespace nestplan::cases

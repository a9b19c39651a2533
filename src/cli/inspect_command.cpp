#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/describe.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/keys.hpp"

namespace nestplan::cli {
namespace {

Description describe_file(const std::string& path, const Flags& flags) {
  if (std::filesystem::is_directory(path)) return describe_model(path, flags);
  const std::string format = io::detect_format(path);
  if (format == "huggingface") return describe_model(path, flags);
  if (format == io::kClusterFormat) return describe_cluster(path);
  if (format == io::kGraphFormat) return describe_graph(path);
  if (format == io::kPlanFormat) return describe_plan(path);
  throw InvalidInput(fmt::format("{}: format: {} cannot be described", path, format));
}

std::vector<Description> describe_all(const Flags& flags, const std::vector<std::string>& files) {
  std::vector<Description> descriptions;
  for (const std::string& file : files) descriptions.push_back(describe_file(file, flags));
  if (!flags.model.empty()) descriptions.push_back(describe_model(flags.model, flags));
  if (!flags.graph.empty()) descriptions.push_back(describe_graph(flags.graph));
  if (!flags.cluster.empty()) descriptions.push_back(describe_cluster(flags.cluster));
  if (descriptions.empty()) {
    throw InvalidConfig("inspect: a file is needed (or --model, --graph, --cluster)");
  }
  return descriptions;
}

/// One file is an object, several are a list.
std::string as_json(const std::vector<Description>& descriptions) {
  if (descriptions.size() == 1) return descriptions.front().json.dump(2) + '\n';
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Description& description : descriptions) list.push_back(description.json);
  return list.dump(2) + '\n';
}

std::string as_text(const std::vector<Description>& descriptions) {
  std::string text;
  for (const Description& description : descriptions) {
    text += (text.empty() ? "" : "\n") + description.text;
  }
  return text;
}

}  // namespace

ExitCode run_inspect(const Flags& flags, const std::vector<std::string>& files) {
  const std::vector<Description> descriptions = describe_all(flags, files);
  print_result(flags.json ? as_json(descriptions) : as_text(descriptions));
  return ExitCode::kDone;
}

}  // namespace nestplan::cli

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/describe.hpp"
#include "cli/describe_cluster.hpp"
#include "cli/describe_device.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/keys.hpp"
#include "nestplan/targets/targets.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

Description describe_file(const std::string& path, const Flags& flags) {
  if (std::filesystem::is_directory(path)) return describe_model(path, flags);
  if (is_checkpoint(path)) return describe_checkpoint(path);
  const std::string text = io::read_text(path);
  const std::string format = io::detect_format(text, path);
  if (format == "huggingface") return describe_model(path, flags);
  if (format == io::kClusterFormat) return describe_cluster(path, text);
  if (format == io::kDeviceFormat) return describe_device(path, text);
  if (format == io::kGraphFormat) return describe_graph(path, text);
  if (format == io::kPlanFormat) return describe_plan(path, text);
  throw InvalidInput(fmt::format("{}: format: {} cannot be described", path, format));
}

std::vector<Description> describe_all(const Flags& flags, const std::vector<std::string>& files) {
  std::vector<Description> descriptions;
  for (const std::string& file : files) descriptions.push_back(describe_file(file, flags));
  if (!flags.model.empty()) descriptions.push_back(describe_model(flags.model, flags));
  const auto add = [&](const std::string& path, auto&& describe) {
    if (!path.empty()) descriptions.push_back(describe(path, io::read_text(path)));
  };
  add(flags.graph, describe_graph);
  add(flags.cluster, describe_cluster);
  if (descriptions.empty()) {
    throw InvalidConfig("inspect: a file is needed (or --model, --graph, --cluster)");
  }
  return descriptions;
}

/// Of the target, or of all frameworks.
std::vector<Description> describe_frameworks(const Flags& flags,
                                             const std::vector<std::string>& files) {
  for (const std::string& file :
       {flags.model, flags.graph, flags.cluster, files.empty() ? "" : files.front()}) {
    if (file.empty()) continue;
    throw InvalidConfig(
        fmt::format("inspect: --rules takes no files, given {}", util::quoted(file)));
  }
  std::vector<Description> descriptions;
  for (const std::string& name :
       flags.target ? std::vector{*flags.target} : targets::rule_set_names()) {
    descriptions.push_back(describe_rules(name));
  }
  return descriptions;
}

/// One file is an object, several are a list. Names that are not UTF-8 are replaced.
std::string as_json(const std::vector<Description>& descriptions) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Description& description : descriptions) list.push_back(description.json);
  const Json& shown = list.size() == 1 ? list.front() : list;
  return shown.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
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
  if (flags.target && !flags.rules) throw InvalidConfig("--target: is for --rules");
  const std::vector<Description> descriptions =
      flags.rules ? describe_frameworks(flags, files) : describe_all(flags, files);
  print_result(flags.json ? as_json(descriptions) : as_text(descriptions));
  return ExitCode::kDone;
}

}  // namespace nestplan::cli

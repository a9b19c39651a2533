#include "campaigns/cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "nestplan/io/files.hpp"

namespace nestplan::campaign {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json parse(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return Json::parse(file);
}

fs::path write(const fs::path& path, const Json& json) {
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  if (!file.flush()) throw std::runtime_error(path.string() + ": cannot be written");
  return path;
}

std::string list(const Json& values) {
  std::string text;
  for (const Json& value : values) {
    text += text.empty() ? "" : ",";
    text += value.is_string() ? value.get<std::string>() : value.dump();
  }
  return text;
}

std::vector<fs::path> sorted_entries(const fs::path& directory) {
  std::vector<fs::path> all;
  if (!fs::exists(directory)) return all;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// The options that a line of `oracle/wide.jsonl` names.
Words oracle_options(const Json& line) {
  if (!line.contains("options")) return {};
  const Json& options = line.at("options");
  Words words{
      "--schedule", options.at("schedule"),   "--recompute",   list(options.at("recompute")),
      "--zero",     list(options.at("zero")), "--state-bytes", list(options.at("state"))};
  if (options.at("uneven").get<bool>()) words.emplace_back("--allow-uneven-batch");
  return words;
}

std::vector<Case> oracle_cases(const fs::path& directory) {
  std::vector<Case> cases;
  for (const char* file : {"instances", "wide"}) {
    std::ifstream lines(shared_directory() / "oracle" / fmt::format("{}.jsonl", file));
    for (std::string text; std::getline(lines, text);) {
      const Json line = Json::parse(text);
      const std::string name = fmt::format("oracle-{}-{}", file, line.at("seed").dump());
      Case one{name, oracle_options(line),
               write(directory / (name + ".cluster.json"), line.at("cluster"))};
      const fs::path graph = write(directory / (name + ".graph.json"), line.at("graph"));
      one.flags.insert(one.flags.end(),
                       {"--graph", graph.string(), "--global-batch", line.at("batch").dump()});
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

std::vector<Case> nest_cases() {
  const fs::path nest = shared_directory() / "nest";
  std::vector<Case> cases;
  if (!fs::exists(nest / "index.json")) return cases;
  for (const Json& entry : parse(nest / "index.json")) {
    cases.push_back({entry.at("id"),
                     {"--graph", (nest / entry.at("graph").get<std::string>()).string(),
                      "--global-batch", entry.at("global_batch").dump(), "--state-bytes",
                      list(entry.at("state_bytes")), "--allow-uneven-batch"},
                     nest / entry.at("cluster").get<std::string>()});
  }
  return cases;
}

/// Every model and graph in `inputs`, on every cluster there.
std::vector<Case> shipped_cases() {
  const fs::path inputs = fs::path(NESTPLAN_SOURCE_DIR) / "inputs";
  std::vector<std::pair<std::string, fs::path>> subjects;
  for (const fs::path& model : sorted_entries(inputs / "models")) {
    subjects.emplace_back("--model", model);
  }
  for (const fs::path& graph : sorted_entries(inputs / "graphs")) {
    if (graph.extension() == ".json") subjects.emplace_back("--graph", graph);
  }
  std::vector<Case> cases;
  for (const fs::path& cluster : sorted_entries(inputs / "clusters")) {
    if (cluster.extension() != ".json") continue;
    for (const auto& [flag, subject] : subjects) {
      cases.push_back({subject.filename().string() + " on " + cluster.stem().string(),
                       {flag, subject.string(), "--global-batch", "512"},
                       cluster});
    }
  }
  return cases;
}

long long devices(const fs::path& cluster) { return io::read_cluster(cluster).devices(); }

std::vector<Case> on_at_most(long long most, std::vector<Case> cases) {
  std::erase_if(cases, [&](const Case& one) { return devices(one.cluster) > most; });
  return cases;
}

std::vector<Case> also(const Words& flags, std::vector<Case> cases) {
  for (Case& one : cases) one.flags.insert(one.flags.end(), flags.begin(), flags.end());
  return cases;
}

std::vector<Case> tightened(std::vector<Case> cases) {
  for (Case& one : cases) one.tight = true;
  return cases;
}

std::vector<Case> joined(std::vector<Case> left, const std::vector<Case>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace

Words Case::all_flags() const {
  Words words = flags;
  words.insert(words.end(), {"--cluster", cluster.string()});
  return words;
}

std::filesystem::path shared_directory() {
  return std::filesystem::path(NESTPLAN_SOURCE_DIR).parent_path() / "shared";
}

std::filesystem::path with_memory(const std::filesystem::path& cluster, long long bytes,
                                  const std::filesystem::path& directory) {
  Json json = parse(cluster);
  json.at("device")["memory"] = fmt::format("{} B", bytes);
  json.at("device")["reserved"] = "0 B";
  // Paths in the file are relative to where it was.
  Json& network = json.at("network");
  if (network.contains("topology")) {
    network["topology"] = (cluster.parent_path() / network["topology"].get<std::string>()).string();
  }
  return write(directory / fmt::format("{}-{}.json", cluster.stem().string(), bytes), json);
}

std::vector<Kind> kinds(const std::filesystem::path& directory, bool all_sizes) {
  const std::vector<Case> oracle = oracle_cases(directory);
  const std::vector<Case> nest = nest_cases();
  const std::vector<Case> shipped = on_at_most(all_sizes ? 1LL << 40 : 512, shipped_cases());
  const std::vector<Case> small = on_at_most(8, shipped);
  const Words paper{"--objective", "paper"};
  const Words per_stage{"--per-stage-strategies"};
  // less than any layer needs
  std::vector<Case> starved = joined(joined(oracle, nest), on_at_most(64, shipped));
  for (Case& one : starved) one.cluster = with_memory(one.cluster, 1000, directory);

  std::vector<Kind> found{
      {"oracle", oracle},
      {"oracle, paper objective", also(paper, oracle)},
      {"oracle, strategies per stage", also(per_stage, oracle)},
      {"oracle, tight memory", tightened(oracle)},
      {"oracle, tight memory, strategies per stage", tightened(also(per_stage, oracle))},
      {"nest", nest},
      {"nest, paper objective", also(paper, nest)},
      {"nest, strategies per stage", also(per_stage, nest)},
      {"nest, tight memory", tightened(nest)},
      {"shipped", shipped},
      {"shipped, paper objective", also(paper, shipped)},
      {"shipped, strategies per stage", also(per_stage, small)},
      {"shipped, tight memory", tightened(shipped)},
      {"shipped, gpipe, blocks", also({"--schedule", "gpipe", "--granularity", "block"}, small)},
      {"no memory", starved},
      {"no batch", also({"--dp", "3", "--micro-batch", "1"}, small)},
  };
  std::erase_if(found, [](const Kind& kind) { return kind.cases.empty(); });
  return found;
}

}  // namespace nestplan::campaign

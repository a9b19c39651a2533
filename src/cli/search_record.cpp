#include "cli/search_record.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/batch_store.hpp"
#include "distributed/archive.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVersion = "run/version";
constexpr const char* kProblem = "run/problem";
constexpr const char* kFlags = "run/flags";
constexpr const char* kSubject = "run/inputs/model";
constexpr const char* kCluster = "run/inputs/cluster";

/// The flag that named what is planned.
const char* subject_flag(const SearchRecord& record) {
  return record.values.contains("graph") ? "graph" : "model";
}

std::string shown(const SearchRecord& record, const std::string& name) {
  const auto found = record.values.find(name);
  return found == record.values.end() ? "not set"
                                      : fmt::format("{}", fmt::join(found->second, ","));
}

bool is_file(std::string_view name) {
  return name == "model" || name == "graph" || name == "cluster";
}

}  // namespace

void SearchRecord::write(solver::SnapshotWriter& out) const {
  Json flags = Json::object();
  for (const auto& [name, texts] : values) flags[name] = texts;
  out.text(kVersion, version);
  out.text(kProblem, fingerprint);
  out.text(kFlags, flags.dump(-1, ' ', false, Json::error_handler_t::replace));
  out.text(kSubject, files.subject.text);
  out.text(kCluster, files.cluster.text);
}

SearchRecord SearchRecord::read(const solver::SnapshotReader& in) {
  SearchRecord record;
  record.version = in.text(kVersion);
  record.fingerprint = in.text(kProblem);
  try {
    Json::parse(in.text(kFlags)).get_to(record.values);
    record.files.subject = {record.values.at(subject_flag(record)).at(0), in.text(kSubject)};
    record.files.cluster = {record.values.at("cluster").at(0), in.text(kCluster)};
  } catch (const std::exception& error) {
    throw InvalidInput(fmt::format("{} does not tell the search: {}", kFlags, error.what()));
  }
  return record;
}

Flags SearchRecord::flags() const {
  RawValues raw;
  for (const Option& option : options()) {
    const auto found = values.find(std::string(option.name));
    if (found != values.end()) raw[option.name] = found->second;
  }
  return parse_flags(Command::kPlan, raw);
}

SearchRecord record_of(const Flags& flags, const InputFiles& files, const model::Problem& problem) {
  SearchRecord record{NESTPLAN_VERSION, fingerprint_of(problem), search_values(flags), files};
  // A model is called after its directory, and the search may go on from another one.
  const auto absolute = [](InputFile& file) {
    file.path = std::filesystem::absolute(file.path).lexically_normal().string();
    return std::vector<std::string>{file.path};
  };
  record.values[subject_flag(record)] = absolute(record.files.subject);
  record.values["cluster"] = absolute(record.files.cluster);
  return record;
}

std::string fingerprint_of(const model::Problem& problem) {
  return fingerprint(distributed::to_archive(problem));
}

std::string difference(const SearchRecord& saved, const SearchRecord& wanted) {
  if (saved.version != wanted.version) {
    return fmt::format("it was written by nestplan {}, this is {}", saved.version, wanted.version);
  }
  if (saved.fingerprint == wanted.fingerprint) return "";
  const std::string subject = subject_flag(wanted);
  if (subject_flag(saved) != subject) {
    return fmt::format("it is for a --{}, not for a --{}", subject_flag(saved), subject);
  }
  const auto other_file = [](const std::string& flag, const InputFile& was, const InputFile& is) {
    return was.path == is.path ? fmt::format("--{}: {} has changed", flag, is.path)
                               : fmt::format("--{}: was {}, is {}", flag, was.path, is.path);
  };
  if (saved.files.subject.text != wanted.files.subject.text) {
    return other_file(subject, saved.files.subject, wanted.files.subject);
  }
  if (saved.files.cluster.text != wanted.files.cluster.text) {
    return other_file("cluster", saved.files.cluster, wanted.files.cluster);
  }
  for (const Option& option : options()) {
    const std::string name(option.name);
    if (is_file(name) || shown(saved, name) == shown(wanted, name)) continue;
    return fmt::format("--{}: was {}, is {}", name, shown(saved, name), shown(wanted, name));
  }
  if (saved.files.subject.path != wanted.files.subject.path) {
    return other_file(subject, saved.files.subject, wanted.files.subject);
  }
  return "this build of nestplan comes to other costs";
}

}  // namespace nestplan::cli

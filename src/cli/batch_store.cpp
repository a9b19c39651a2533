#include "cli/batch_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <utility>

#include "nestplan/io/files.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "nestplan.batch-job/1";

/// Nothing if there is no such file.
std::optional<std::string> text_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  return io::read_text(path);
}

}  // namespace

/// FNV-1a (Fowler, Noll, Vo) with 64 bits.
std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return fmt::format("{:016x}", hash);
}

void BatchStore::prepare() const {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) {
    throw IoError(fmt::format("{}: cannot be made: {}", directory_.string(), error.message()));
  }
  const io::OutputFile proof(directory_ / "proof");
}

std::string BatchStore::plan_file(const std::string& name) const {
  return (directory_ / (name + ".plan.json")).string();
}

std::string BatchStore::done_file(const std::string& name) const {
  return (directory_ / (name + ".done.json")).string();
}

std::vector<std::string> BatchStore::names() const {
  constexpr std::string_view kEnding = ".plan.json";
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(kEnding)) continue;
    name.erase(name.size() - kEnding.size());
    names.push_back(std::move(name));
  }
  if (error) {
    throw IoError(fmt::format("{}: cannot be read: {}", directory_.string(), error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<JobResult> BatchStore::finished(const std::string& name,
                                              const std::string& inputs) const {
  return recorded(name, &inputs);
}

std::optional<JobResult> BatchStore::recorded(const std::string& name) const {
  return recorded(name, nullptr);
}

std::optional<JobResult> BatchStore::recorded(const std::string& name,
                                              const std::string* inputs) const {
  const auto done = text_of(done_file(name));
  const auto plan = text_of(plan_file(name));
  if (!done || !plan) return std::nullopt;
  try {
    const Json document = Json::parse(*done);
    if (document.at("format") != kFormat || document.at("plan") != fingerprint(*plan)) {
      return std::nullopt;
    }
    if (inputs != nullptr && document.at("inputs") != *inputs) return std::nullopt;
    JobResult result = result_from_json(document.at("result"));
    if (result.name != name) return std::nullopt;
    result.plan = plan_file(name);
    result.reused = true;
    return result;
  } catch (const Json::exception&) {
    return std::nullopt;  // cut short or not ours: the job is planned again
  }
}

void BatchStore::save(const JobResult& result, const std::string& plan, const std::string& inputs,
                      bool finished) const {
  io::OutputFile(plan_file(result.name)).commit(plan);
  if (!finished) return;
  const Json document{{"format", kFormat},
                      {"inputs", inputs},
                      {"plan", fingerprint(plan)},
                      {"result", to_json(result)}};
  io::OutputFile(done_file(result.name)).commit(document.dump(2) + '\n');
}

}  // namespace nestplan::cli

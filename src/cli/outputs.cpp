#include "cli/outputs.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <system_error>

#include "cli/plan_output.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

/// A name without links and detours, some of which may lead to nothing yet.
std::string plain_name(const std::string& file) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(file, error);
  const auto target = std::filesystem::read_symlink(path, error);
  if (!error) path = path.parent_path() / target;
  return std::filesystem::weakly_canonical(path, error).string();
}

/// What all names of one file have in common; empty for what writing does not replace.
std::string identity_of(const std::string& file) {
  if (file.empty() || is_standard_output(file)) return "";
  struct stat found {};
  const std::string name = plain_name(file);
  if (::stat(file.c_str(), &found) != 0 && ::stat(name.c_str(), &found) != 0) return name;
  const bool replaced = S_ISREG(found.st_mode) || S_ISDIR(found.st_mode);
  return replaced ? fmt::format("{}:{}", found.st_dev, found.st_ino) : "";
}

}  // namespace

std::vector<NamedFile> input_names(const Flags& flags) {
  const std::string model = flags.model.empty() ? "" : io::model_file(flags.model).string();
  return {{"--model", model},
          {"--graph", flags.graph},
          {"--cluster", flags.cluster},
          {"--config", flags.config}};
}

void refuse_shared_outputs(const std::vector<NamedFile>& outputs,
                           const std::vector<NamedFile>& inputs) {
  std::map<std::string, const NamedFile*> taken;
  for (const NamedFile& input : inputs) {
    const std::string identity = identity_of(input.path);
    if (!identity.empty()) taken.emplace(identity, &input);
  }
  for (const NamedFile& output : outputs) {
    const std::string identity = identity_of(output.path);
    if (identity.empty()) continue;
    const auto [other, is_free] = taken.emplace(identity, &output);
    if (is_free) continue;
    throw InvalidConfig(fmt::format("{}: {} is the file of {}; give it another name", output.role,
                                    util::quoted(output.path), other->second->role));
  }
}

}  // namespace nestplan::cli

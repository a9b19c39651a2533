#include "nestplan/io/batch_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "io/json.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::io {

namespace batch_keys {
const KeySet kBatch{"", {"format", "jobs"}, {"options"}};
const KeySet kJob{"job", {"name", "cluster"}, {"model", "graph", "options"}};
}  // namespace batch_keys

namespace {

using Options = std::map<std::string, std::vector<std::string>>;

constexpr std::size_t kLongestName = 200;  ///< leaves room for suffixes in a file name

std::string read_name(const Field& field) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+@=-";
  std::string name = field.identifier();
  if (name.find_first_not_of(kLetters) != std::string::npos) {
    field.fail(fmt::format("{} cannot name a file: only letters, digits and ._+@=- are allowed",
                           util::quoted(name)));
  }
  if (name.front() == '.' || name.front() == '-') {
    field.fail(fmt::format("{} must not start with \"{}\"", util::quoted(name), name.front()));
  }
  if (name.size() > kLongestName) {
    field.fail(fmt::format("must have at most {} letters, but has {}", kLongestName, name.size()));
  }
  return name;
}

/// A number or text as on the command line.
std::string read_scalar(const Field& field) {
  const Json& value = field.json();
  if (value.is_string()) return field.identifier();
  if (!value.is_number()) field.fail("must be a number or text");
  const nlohmann::ordered_json number = number_to_json(value.get<double>());
  return value.is_number_float() ? number.dump() : value.dump();
}

std::vector<std::string> read_value(const Field& field, BatchOption::Type type) {
  if (type == BatchOption::Type::kSwitch) return {field.boolean() ? "true" : "false"};
  if (!field.json().is_array()) return {read_scalar(field)};
  if (type != BatchOption::Type::kList) field.fail("takes one value, not a list");
  std::vector<std::string> values;
  for (const Field& item : field.items()) values.push_back(read_scalar(item));
  if (values.empty()) field.fail("must not be empty; leave the option out for its default");
  return values;
}

Options read_options(const Field& field, std::span<const BatchOption> known) {
  KeySet keys{"options", {}, {}};
  for (const BatchOption& option : known) keys.optional.push_back(option.name);
  field.expect(keys);
  Options options;
  for (const BatchOption& option : known) {
    if (const auto value = field.find(option.name)) {
      options[option.name] = read_value(*value, option.type);
    }
  }
  return options;
}

/// What paths are relative to: where the file is, or here if it comes through a pipe.
std::filesystem::path directory_of(const std::string& file) {
  const bool pipe = file.starts_with("/dev/") || file.starts_with("/proc/");
  return pipe ? std::filesystem::path() : std::filesystem::path(file).parent_path();
}

/// Reads the jobs of one file.
class Reader {
 public:
  Reader(const std::string& file, std::span<const BatchOption> known)
      : directory_(directory_of(file)), known_(known) {}

  std::vector<BatchJob> read(const Field& root) {
    root.expect(batch_keys::kBatch);
    if (const auto options = root.find("options")) defaults_ = read_options(*options, known_);
    const Field jobs = root.at("jobs");
    std::vector<BatchJob> read;
    for (const Field& item : jobs.items()) read.push_back(read_job(item));
    if (read.empty()) jobs.fail("must have at least one job");
    return read;
  }

 private:
  BatchJob read_job(const Field& field) {
    field.expect(batch_keys::kJob);
    BatchJob job;
    const Field name = field.at("name");
    job.name = read_name(name);
    const auto [first, is_new] = named_at_.emplace(job.name, name.path());
    if (!is_new) {
      name.fail(fmt::format("{} is the name of {} too; names must differ", util::quoted(job.name),
                            first->second));
    }
    job.model = path_at(field, "model");
    job.graph = path_at(field, "graph");
    if (job.model.empty() == job.graph.empty()) {
      field.fail(job.model.empty() ? "needs \"model\" or \"graph\": what is to be planned"
                                   : "has both \"model\" and \"graph\": give one of them");
    }
    job.cluster = path_at(field, "cluster");
    if (const auto options = field.find("options")) job.options = read_options(*options, known_);
    job.options.insert(defaults_.begin(), defaults_.end());
    return job;
  }

  /// Empty if there is none.
  std::string path_at(const Field& field, const std::string& key) const {
    const auto path = field.find(key);
    return path ? (directory_ / path->identifier()).lexically_normal().string() : "";
  }

  std::filesystem::path directory_;
  std::span<const BatchOption> known_;
  Options defaults_;
  std::map<std::string, std::string> named_at_;  ///< where each name was given first
};

}  // namespace

std::vector<BatchJob> parse_batch(std::string_view text, const std::string& file,
                                  std::span<const BatchOption> known) {
  const Document document(text, file);
  return Reader(file, known).read(document.root_of(kBatchFormat));
}

}  // namespace nestplan::io

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/batch_result.hpp"

namespace nestplan::cli {

/// Fingerprint of `text`, as hexadecimal digits.
std::string fingerprint(std::string_view text);

/// The directory that a batch writes to: NAME.plan.json is a job's plan, NAME.done.json says for
/// which inputs it was finished and with what result. Several runs may share it as long as they
/// have different jobs at work.
class BatchStore {
 public:
  explicit BatchStore(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Makes the directory and proves that it can be written to. Throws IoError.
  void prepare() const;

  std::string plan_file(const std::string& name) const;

  /// The jobs that have a plan, finished or not, in the order of their names.
  std::vector<std::string> names() const;

  /// The result of a job that was finished, with whatever inputs, and whose plan is still as it
  /// was.
  std::optional<JobResult> recorded(const std::string& name) const;

  /// The result of a job that was finished with these inputs and whose plan is still as it was.
  std::optional<JobResult> finished(const std::string& name, const std::string& inputs) const;

  /// Writes the plan and, if the job is `finished` with it, that it is. Throws IoError.
  void save(const JobResult& result, const std::string& plan, const std::string& inputs,
            bool finished) const;

 private:
  std::string done_file(const std::string& name) const;
  std::optional<JobResult> recorded(const std::string& name, const std::string* inputs) const;

  std::filesystem::path directory_;
};

}  // namespace nestplan::cli

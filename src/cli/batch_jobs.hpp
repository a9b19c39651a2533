#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.hpp"
#include "nestplan/io/batch_file.hpp"

namespace nestplan::cli {

/// A search of a batch, as `plan` would make it with these flags.
struct Job {
  std::string name;
  Flags flags;
};

/// The options of `plan` that a job may set: all but those about files and about how the search
/// runs, of which only the time limit is left.
std::vector<io::BatchOption> batch_options();

/// The jobs of a batch file, whose text is given, in its order. Throws InvalidInput naming file and
/// field, also for values that `plan` would refuse.
std::vector<Job> read_jobs(std::string_view text, const std::string& file);

/// Those that `--only` names, if it is given, and of these the share of `--task`. Every job is in
/// exactly one of the tasks 1/N … N/N. Throws InvalidConfig.
std::vector<Job> selected_jobs(std::vector<Job> jobs, const Flags& flags);

}  // namespace nestplan::cli

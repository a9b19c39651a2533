#include "cli/batch_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

bool is_file_of_a_job(const Option& option) {
  return option.name == "model" || option.name == "graph" || option.name == "cluster";
}

bool is_for_jobs(const Option& option) {
  if (!option.belongs_to(Command::kPlan) || is_file_of_a_job(option)) return false;
  return option.belongs_to(Command::kEvaluate)
             ? option.name != "output" && option.name != "json" && option.name != "verbose" &&
                   option.name != "quiet"
             : option.name == "time-limit";
}

io::BatchOption::Type written_as(const OptionType& type) {
  using Type = io::BatchOption::Type;
  if (std::holds_alternative<Switch>(type)) return Type::kSwitch;
  const bool list =
      std::holds_alternative<IntegerList>(type) || std::holds_alternative<RealList>(type) ||
      std::holds_alternative<WordList>(type) || std::holds_alternative<ChoiceList>(type);
  return list ? Type::kList : Type::kScalar;
}

Job to_job(const io::BatchJob& written, const std::string& file) {
  RawValues raw;
  for (const Option& option : options()) {
    const auto value = written.options.find(std::string(option.name));
    if (value != written.options.end()) raw[option.name] = value->second;
  }
  try {
    Job job{written.name, parse_flags(Command::kPlan, raw)};
    job.flags.model = written.model;
    job.flags.graph = written.graph;
    job.flags.cluster = written.cluster;
    return job;
  } catch (const InvalidConfig& error) {
    throw InvalidInput(fmt::format("{}: job {}: {}", file, written.name, error.what()));
  }
}

/// "3/8".
struct Share {
  std::size_t index = 1;
  std::size_t count = 1;
};

Share parse_share(const std::string& text) {
  Share share;
  const char* const end = text.data() + text.size();
  const auto [slash, first] = std::from_chars(text.data(), end, share.index);
  const bool halves = first == std::errc{} && slash != end && *slash == '/';
  const auto [stop, second] = halves ? std::from_chars(slash + 1, end, share.count)
                                     : std::from_chars_result{end, std::errc::invalid_argument};
  if (second != std::errc{} || stop != end || share.count == 0) {
    throw InvalidConfig(
        fmt::format("--task: {} is not I/N, such as 3/8: the third of eight", util::quoted(text)));
  }
  if (share.index < 1 || share.index > share.count) {
    throw InvalidConfig(
        fmt::format("--task: {}: tasks are numbered from 1 to {}", text, share.count));
  }
  return share;
}

void keep_named(std::vector<Job>& jobs, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Job& job : jobs) known.push_back(job.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InvalidConfig(fmt::format("--only: no job is called {}{}", util::quoted(name),
                                      util::hint(name, known)));
    }
  }
  std::erase_if(jobs, [&](const Job& job) {
    return std::find(names.begin(), names.end(), job.name) == names.end();
  });
}

}  // namespace

std::vector<io::BatchOption> batch_options() {
  std::vector<io::BatchOption> known;
  for (const Option& option : options()) {
    if (is_for_jobs(option)) known.push_back({std::string(option.name), written_as(option.type)});
  }
  return known;
}

std::vector<Job> read_jobs(std::string_view text, const std::string& file) {
  std::vector<Job> jobs;
  for (const io::BatchJob& written : io::parse_batch(text, file, batch_options())) {
    jobs.push_back(to_job(written, file));
  }
  return jobs;
}

std::vector<Job> selected_jobs(std::vector<Job> jobs, const Flags& flags) {
  if (!flags.only.empty()) keep_named(jobs, flags.only);
  if (flags.task.empty()) return jobs;
  const Share share = parse_share(flags.task);
  std::vector<Job> mine;
  for (std::size_t i = share.index - 1; i < jobs.size(); i += share.count) {
    mine.push_back(std::move(jobs[i]));
  }
  return mine;
}

}  // namespace nestplan::cli

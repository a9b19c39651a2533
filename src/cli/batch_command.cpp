#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>

#include "cli/batch_board.hpp"
#include "cli/batch_jobs.hpp"
#include "cli/batch_result.hpp"
#include "cli/batch_store.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/crew.hpp"
#include "cli/inputs.hpp"
#include "cli/outputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/progress.hpp"
#include "cli/ranks.hpp"
#include "cli/text.hpp"
#include "cli/work_estimate.hpp"
#include "distributed/archive.hpp"
#include "nestplan/distributed/solve.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/solver/solver.hpp"
#include "nestplan/util/lists.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What is known of a job before it is searched.
struct Appraisal {
  std::string inputs;  ///< fingerprint of all that its result depends on
  double work = 0;
  std::optional<JobResult> result;  ///< it is finished, or its inputs are no good
};

Json to_json(std::size_t job, const Appraisal& appraisal) {
  return {{"job", job},
          {"inputs", appraisal.inputs},
          {"work", appraisal.work},
          {"result", appraisal.result ? to_json(*appraisal.result) : Json(nullptr)}};
}

Appraisal appraisal_from_json(const Json& json) {
  Appraisal appraisal{json.at("inputs").get<std::string>(), json.at("work").get<double>(), {}};
  if (!json.at("result").is_null()) appraisal.result = result_from_json(json.at("result"));
  return appraisal;
}

/// The problem with its costs, and this version of nestplan: changes of either change the result.
std::string inputs_of(const Job& job, const model::Problem& problem) {
  std::string all = distributed::to_archive(problem);
  all += fmt::format("|" NESTPLAN_VERSION "|{}", job.flags.time_limit.value_or(0));
  return fingerprint(all);
}

Appraisal appraise(const Job& job, const BatchStore& store) {
  Appraisal appraisal;
  try {
    const Setup setup = load_setup(job.flags);
    appraisal.inputs = inputs_of(job, setup.problem);
    appraisal.result = store.finished(job.name, appraisal.inputs);
    if (!appraisal.result) appraisal.work = estimated_work(setup.problem);
  } catch (...) {
    const auto [code, message] = describe_failure();
    appraisal.result = failed_job(job.name, code, message);
  }
  return appraisal;
}

/// The appraisals of all jobs, of which every rank makes its share. *Collective.*
std::vector<Appraisal> appraise_all(const std::vector<Job>& jobs, const BatchStore& store,
                                    const Ranks& ranks) {
  Json mine = Json::array();
  for (std::size_t i = 0; i < jobs.size() && !stop_requested(); ++i) {
    if (i % static_cast<std::size_t>(ranks.size()) != static_cast<std::size_t>(ranks.rank())) {
      continue;
    }
    mine.push_back(to_json(i, appraise(jobs[i], store)));
  }
  const std::string text = mine.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<Appraisal> all(jobs.size());
  for (const std::string& part : ranks.all_gather(text)) {
    for (const Json& json : Json::parse(part)) {
      all[json.at("job").get<std::size_t>()] = appraisal_from_json(json);
    }
  }
  return all;
}

/// Jobs without a result, the largest first.
std::deque<std::int64_t> queue_of(const std::vector<Appraisal>& appraisals) {
  std::deque<std::int64_t> queue;
  for (std::size_t i = 0; i < appraisals.size(); ++i) {
    if (!appraisals[i].result) queue.push_back(static_cast<std::int64_t>(i));
  }
  std::stable_sort(queue.begin(), queue.end(), [&](std::int64_t a, std::int64_t b) {
    return appraisals[static_cast<std::size_t>(a)].work >
           appraisals[static_cast<std::size_t>(b)].work;
  });
  return queue;
}

int crew_width(const Flags& flags, const Ranks& ranks, std::size_t waiting) {
  if (flags.ranks_per_job) return static_cast<int>(*flags.ranks_per_job);
  return std::max(1, ranks.size() / static_cast<int>(std::clamp<std::size_t>(waiting, 1, 1 << 30)));
}

/// What a plan and its document say about a job.
JobResult describe(const std::string& name, const model::Plan& plan, const Setup& setup,
                   const std::string& document, bool signalled) {
  JobResult result;
  result.name = name;
  result.status = to_string(plan.status);
  result.code = exit_code_of(plan);
  result.search_s = plan.search.seconds;
  result.message = plan.reason;
  if (plan.status == model::Status::kInfeasible) {
    if (plan.search.stopped) result.status = "stopped";
    return result;
  }
  if (plan.search.stopped) {
    result.message = fmt::format("stopped by {} with a gap of {}",
                                 signalled ? "a signal" : "the time limit", percent(plan.gap));
  }
  const Json throughput = Json::parse(document).at("throughput");
  const auto rate = [&](const char* key) -> std::optional<double> {
    if (throughput.at(key).is_null()) return std::nullopt;
    return throughput.at(key).get<double>();
  };
  result.iteration_time_s = plan.iteration_time_s;
  result.samples_per_s = rate("samples_per_s");
  result.tokens_per_s_per_device = rate("tokens_per_s_per_device");
  result.dp = plan.strategy.dp;
  result.pp = plan.strategy.pp;
  for (const model::StagePlan& stage : plan.stages) {
    result.tp.push_back(
        setup.problem.graph.strategies[static_cast<std::size_t>(stage.strategy)].tp);
  }
  util::sort_unique(result.tp);
  return result;
}

/// Works through the jobs of a batch on all ranks. On the first one the results come together.
class Batch {
 public:
  /// *Collective.*
  Batch(const Flags& flags, const Ranks& ranks, const std::vector<Job>& jobs,
        const BatchStore& store)
      : flags_(flags),
        ranks_(ranks),
        jobs_(jobs),
        store_(store),
        appraisals_(appraise_all(jobs, store, ranks)),
        queue_(queue_of(appraisals_)),
        memory_limit_bytes_(
            distributed::memory_per_rank(ranks.size() > 1 ? &ranks.world() : nullptr)),
        crew_(ranks, crew_width(flags, ranks, queue_.size())),
        board_(crew_.take_leaders(), queue_, [this](const JobReport& report) { note(report); }) {
    for (const Job& job : jobs) results_.emplace_back().name = job.name;
  }

  /// *Collective.*
  void run() {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (appraisals_[i].result) {
        note({static_cast<std::int64_t>(i), *appraisals_[i].result, false, {}});
      }
    }
    std::optional<JobReport> last;
    for (;;) {
      std::optional<std::int64_t> job;
      if (crew_.leads()) {
        check_signals();
        job = board_.next(last);
      }
      const std::int64_t agreed = crew_.agree(job.value_or(-1));
      if (agreed < 0) break;
      last = work_on(agreed);
    }
    if (crew_.leads()) board_.close();
  }

  /// In the order of the jobs; on the first rank.
  const std::vector<JobResult>& results() const { return results_; }
  bool stopped() const { return board_.stopping(); }

 private:
  void check_signals() {
    if (!crew_.leads()) return;
    board_.serve();
    if (stop_requested()) board_.stop();
  }

  bool is_to_stop() {
    check_signals();
    return stop_requested() || board_.stopping();
  }

  /// On the first rank: a job has ended.
  void note(const JobReport& report) {
    if (!ranks_.speaks()) return;
    results_[static_cast<std::size_t>(report.job)] = report.result;
    ++ended_;
    if (flags_.quiet) return;
    if (line_) line_->wipe();
    if (flags_.verbose) {
      for (const std::string& remark : report.remarks) {
        print_message(fmt::format("nestplan: {}: {}", report.result.name, remark));
      }
    }
    print_message(fmt::format("nestplan: [{}/{}] {}: {}", ended_, jobs_.size(), report.result.name,
                              result_text(report.result)));
  }

  /// The plan on the leader. *Collective over the crew.*
  std::optional<model::Plan> search(const Job& job, const Setup& setup) {
    solver::SearchSettings settings;
    if (job.flags.time_limit) settings.time_limit_s = *job.flags.time_limit;
    settings.memory_limit_bytes = memory_limit_bytes_;
    settings.stop_requested = [this] { return is_to_stop(); };
    if (line_) {
      settings.progress = [this](const solver::Progress& progress) { line_->show(progress); };
    }
    if (crew_.size() == 1) return solver::solve(setup.problem, *setup.network, settings);
    return distributed::solve(setup.problem, *setup.network, settings, crew_.comm());
  }

  /// *Collective over the crew.*
  JobReport work_on(std::int64_t number) {
    const Job& job = jobs_[static_cast<std::size_t>(number)];
    const auto meanwhile = [this] { check_signals(); };
    Setup setup;
    std::optional<model::Plan> plan;
    std::optional<Failure> failure = crew_.together(
        [&] {
          if (crew_.leads()) setup = load_setup(job.flags);
        },
        meanwhile);
    if (!failure) {
      if (crew_.size() > 1) share_setup(crew_.comm(), setup);
      if (ranks_.speaks() && !flags_.quiet) line_.emplace(job.name + ": searching");
      failure = crew_.together([&] { plan = search(job, setup); }, meanwhile);
      line_.reset();
    }
    // A signal may have reached any rank.
    JobReport report{number, {}, crew_.anywhere(is_to_stop()), setup.remarks};
    if (failure) {
      report.result = failed_job(job.name, failure->code, failure->message);
    } else if (plan) {
      report.result = record(job, setup, *plan, report.stopped);
    }
    return report;
  }

  /// Writes the plan; what came of the job.
  JobResult record(const Job& job, const Setup& setup, const model::Plan& plan, bool stopping) {
    try {
      const bool signalled = plan.search.stopped && stopping;
      const std::string document = plan_document(plan, setup);
      JobResult result = describe(job.name, plan, setup, document, signalled);
      const bool answered = result.status != "stopped";
      if (!answered) return result;
      result.plan = store_.plan_file(job.name);
      store_.save(result, document, inputs_of(job, setup.problem), !signalled);
      return result;
    } catch (...) {
      const auto [code, message] = describe_failure();
      return failed_job(job.name, code, message);
    }
  }

  const Flags& flags_;
  const Ranks& ranks_;
  const std::vector<Job>& jobs_;
  const BatchStore& store_;
  std::vector<Appraisal> appraisals_;
  std::deque<std::int64_t> queue_;
  double memory_limit_bytes_;
  Crew crew_;
  BatchBoard board_;
  std::optional<ProgressLine> line_;
  std::vector<JobResult> results_;
  std::size_t ended_ = 0;
};

void check_batch_flags(const Flags& flags, const Ranks& ranks) {
  if (flags.output.empty()) throw InvalidConfig("-o is needed: the directory that plans go to");
  if (flags.ranks_per_job && *flags.ranks_per_job > ranks.size()) {
    throw InvalidConfig(
        fmt::format("--ranks-per-job: {} is more than the {} rank{} there {}", *flags.ranks_per_job,
                    ranks.size(), ranks.size() == 1 ? "" : "s", ranks.size() == 1 ? "is" : "are"));
  }
}

/// Plans and the summary take the place of nothing that jobs need, nor of each other.
void check_outputs(const Flags& flags, const std::string& batch_file, const std::vector<Job>& jobs,
                   const BatchStore& store) {
  std::vector<NamedFile> inputs{{"the batch", batch_file}};
  std::vector<NamedFile> outputs{{"-o", flags.output}};
  for (const Job& job : jobs) {
    for (NamedFile& input : input_names(job.flags)) {
      inputs.push_back({fmt::format("{} of job {}", input.role, job.name), std::move(input.path)});
    }
    outputs.push_back({fmt::format("the plan of job {}", job.name), store.plan_file(job.name)});
  }
  outputs.push_back({"--csv", flags.csv});
  refuse_shared_outputs(outputs, inputs);
}

/// The summary's file, and stdout as text, JSON or CSV.
class SummaryOutput {
 public:
  /// Proves that the file can be written. Throws IoError or InvalidConfig.
  explicit SummaryOutput(const Flags& flags) : flags_(flags) {
    const bool to_stdout = is_standard_output(flags.csv);
    if (to_stdout && flags.json) throw InvalidConfig("--json and --csv cannot share stdout");
    if (!flags.csv.empty() && !to_stdout) file_.emplace(flags.csv);
  }

  void write(const std::vector<JobResult>& results) {
    if (file_) file_->commit(summary_csv(results));
    const bool csv = !file_ && !flags_.csv.empty();
    print_result(csv           ? summary_csv(results)
                 : flags_.json ? summary_json(results)
                               : summary_text(results, flags_.verbose));
  }

 private:
  const Flags& flags_;
  std::optional<io::OutputFile> file_;
};

}  // namespace

ExitCode run_batch(const Flags& flags, const std::string& batch_file, const Ranks& ranks) {
  check_batch_flags(flags, ranks);
  if (!flags.single_process) ranks.refuse_lonely();
  install_stop_handlers();
  const std::string text = ranks.read_text(batch_file);
  const std::vector<Job> jobs = selected_jobs(read_jobs(text, batch_file), flags);
  const BatchStore store(flags.output);
  std::optional<SummaryOutput> output;
  ranks.together([&] {
    if (!ranks.speaks()) return;
    check_outputs(flags, batch_file, jobs, store);
    store.prepare();
    output.emplace(flags);
  });
  try {
    Batch batch(flags, ranks, jobs, store);
    batch.run();
    ExitCode code = ExitCode::kDone;
    ranks.together([&] {
      if (!ranks.speaks()) return;
      output->write(batch.results());
      code = batch_exit_code(batch.results(), batch.stopped());
    });
    return ranks.agree(code);
  } catch (const AgreedFailure&) {
    throw;
  } catch (...) {
    ranks.end_all();
    throw;
  }
}

}  // namespace nestplan::cli

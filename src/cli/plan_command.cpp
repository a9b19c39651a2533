#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/inputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/progress.hpp"
#include "cli/ranks.hpp"
#include "cli/search_file.hpp"
#include "nestplan/distributed/solve.hpp"
#include "nestplan/solver/solver.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr double kSaveEvery = 300;  ///< seconds

/// What is searched and where the answer goes: on the first rank.
struct Task {
  Setup setup;
  std::optional<PlanOutput> output;
};

void check_flags(const Flags& flags, const Ranks& ranks) {
  if (!flags.grid.empty()) distributed::parse_layout(flags.grid, ranks.size());
}

/// The plan would take the place of the checkpoint.
void check_output(const Flags& flags, const std::string& checkpoint) {
  std::error_code error;
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(path, error);
  };
  if (flags.output.empty() || is_standard_output(flags.output)) return;
  if (place(flags.output) == place(checkpoint)) {
    throw InvalidConfig(fmt::format("-o: {} is the checkpoint", flags.output));
  }
}

/// The plan on the first rank, nothing on the others.
std::optional<model::Plan> search(const Flags& flags, const Setup& setup, const Ranks& ranks,
                                  SearchFile* file) {
  solver::SearchSettings settings;
  if (flags.time_limit) settings.time_limit_s = *flags.time_limit;
  settings.stop_requested = stop_requested;
  ProgressLine line;
  if (!flags.quiet) {
    settings.progress = [&line](const solver::Progress& progress) { line.show(progress); };
  }
  settings.memory_limit_bytes =
      distributed::memory_per_rank(ranks.size() > 1 ? &ranks.world() : nullptr);
  solver::Checkpoints checkpoints;
  if (file != nullptr) {
    checkpoints.every_s = flags.checkpoint_every.value_or(kSaveEvery);
    checkpoints.save = [&](const auto& state) {
      const auto start = std::chrono::steady_clock::now();
      const std::int64_t bytes = file->save(state);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (!flags.verbose || flags.quiet) return;
      line.wipe();
      print_message(fmt::format("nestplan: saved {} in {}",
                                util::format_bytes_binary(static_cast<double>(bytes)),
                                util::format_seconds(taken.count())));
    };
    checkpoints.from = file->state();
    settings.checkpoints = &checkpoints;
  }
  if (ranks.size() == 1) return solver::solve(setup.problem, *setup.network, settings);
  std::optional<distributed::RankLayout> layout;
  if (!flags.grid.empty()) layout = distributed::parse_layout(flags.grid, ranks.size());
  try {
    return distributed::solve(setup.problem, *setup.network, settings, ranks.world(), layout);
  } catch (const AgreedFailure&) {
    throw;
  } catch (const MemoryLimit&) {
    throw;  // on all ranks
  } catch (...) {
    ranks.end_all();
    throw;
  }
}

ExitCode report(const Flags& flags, const model::Plan& plan, Task& task,
                const std::optional<std::string>& document) {
  task.output->write(plan, task.setup, {.fold_stages = !flags.verbose, .breakdown = flags.verbose},
                     document);
  return exit_code_of(plan);
}

/// Prints what the search has come to already.
ExitCode report_finished(const Flags& flags, const Ranks& ranks, Task& task,
                         const SearchFile& file) {
  ExitCode code = ExitCode::kDone;
  ranks.together([&] {
    if (!ranks.speaks()) return;
    print_remarks(flags, task.setup);
    const std::string document = *file.document();
    code = report(flags, plan_of(document, file.path(), task.setup), task, document);
  });
  return ranks.agree(code);
}

void tell(const Flags& flags, const std::string& what) {
  if (!flags.quiet) print_message(fmt::format("nestplan: {}", what));
}

void tell_begin(const Flags& flags, const SearchFile& file) {
  if (file.state() == nullptr) return;
  tell(flags, fmt::format("going on with the search in {}, {} so far", file.path(),
                          util::format_seconds(file.state()->reals("search/spent_s").at(0))));
}

/// Searches, prints, and leaves the checkpoint, if there is one, as it should be found.
ExitCode carry_out(const Flags& flags, const Ranks& ranks, Task& task, SearchFile* file) {
  if (file != nullptr && file->document()) return report_finished(flags, ranks, task, *file);
  if (ranks.size() > 1) share_setup(ranks.world(), task.setup);
  print_remarks(flags, task.setup);
  if (file != nullptr) {
    file->begin();
    tell_begin(flags, *file);
  }
  const std::optional<model::Plan> plan = search(flags, task.setup, ranks, file);
  ExitCode code = ExitCode::kDone;
  std::string document;
  ranks.together([&] {
    if (!plan) return;
    document = plan_document(*plan, task.setup);
    code = report(flags, *plan, task, document);
  });
  code = ranks.agree(code);
  if (file == nullptr) return code;
  if (code == ExitCode::kStopped) {
    tell(flags, fmt::format("stopped; go on with: nestplan resume {}", file->path()));
  } else {
    file->finish(document);
  }
  return code;
}

}  // namespace

ExitCode run_plan(const Flags& flags, const Ranks& ranks) {
  if (flags.dump_config) {
    print_result(dump_config(flags));
    return ExitCode::kDone;
  }
  if (!flags.single_process) ranks.refuse_lonely();
  install_stop_handlers();
  Task task;
  SearchRecord record;
  const bool saves = !flags.checkpoint.empty();
  ranks.together([&] {
    check_flags(flags, ranks);
    if (flags.checkpoint_every && !saves) {
      throw InvalidConfig("--checkpoint-every: --checkpoint is needed: where to save");
    }
    if (!ranks.speaks()) return;
    if (saves) check_output(flags, flags.checkpoint);
    const InputFiles files = read_inputs(flags);
    task.setup = load_setup(flags, files);
    if (saves) record = record_of(flags, files, task.setup.problem);
    task.output.emplace(flags);
  });
  if (!saves) return carry_out(flags, ranks, task, nullptr);
  SearchFile file(flags.checkpoint, ranks, /*must_exist=*/false);
  ranks.together([&] {
    if (!ranks.speaks()) return;
    const std::optional<SearchRecord> saved = file.record();
    const std::string other = saved ? difference(*saved, record) : "";
    if (!other.empty()) {
      throw InvalidInput(
          fmt::format("{}: holds another search: {}; name another checkpoint or remove this one",
                      flags.checkpoint, other));
    }
    file.set_record(std::move(record));
  });
  return carry_out(flags, ranks, task, &file);
}

ExitCode run_resume(const Flags& flags, const std::string& checkpoint, const Ranks& ranks) {
  if (!flags.single_process) ranks.refuse_lonely();
  install_stop_handlers();
  ranks.together([&] {
    check_flags(flags, ranks);
    if (ranks.speaks()) check_output(flags, checkpoint);
  });
  SearchFile file(checkpoint, ranks, /*must_exist=*/true);
  Task task;
  ranks.together([&] {
    if (!ranks.speaks()) return;
    SearchRecord saved = file.record().value();
    if (saved.version != NESTPLAN_VERSION) {
      throw InvalidInput(fmt::format("{}: was written by nestplan {}, this is {}", checkpoint,
                                     saved.version, NESTPLAN_VERSION));
    }
    const Flags what = saved.flags();
    task.setup = load_setup(what, saved.files);
    const std::string other = difference(saved, record_of(what, saved.files, task.setup.problem));
    if (!other.empty()) throw InvalidInput(fmt::format("{}: {}", checkpoint, other));
    file.set_record(std::move(saved));
    task.output.emplace(flags);
  });
  return carry_out(flags, ranks, task, &file);
}

}  // namespace nestplan::cli

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/inputs.hpp"
#include "cli/outputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_search.hpp"
#include "cli/questions.hpp"
#include "cli/ranks.hpp"
#include "cli/search_file.hpp"
#include "nestplan/distributed/solve.hpp"
#include "nestplan/network/node_choice.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

/// What is searched and where the answer goes: on the first rank.
struct Task {
  Setup setup;
  std::optional<PlanOutput> output;
};

void check_flags(const Flags& flags, const Ranks& ranks) {
  if (!flags.grid.empty()) distributed::parse_layout(flags.grid, ranks.size());
}

/// The flags of `plan` alone.
void check_plan_flags(const Flags& flags, const Ranks& ranks) {
  check_flags(flags, ranks);
  check_question(flags);
  if (flags.checkpoint_every && flags.checkpoint.empty()) {
    throw InvalidConfig("--checkpoint-every: --checkpoint is needed: where to save");
  }
}

/// The plan would take the place of an input, of the checkpoint or of the one before it.
void check_output(const Flags& flags, const std::string& checkpoint) {
  std::vector<NamedFile> others = input_names(flags);
  if (!checkpoint.empty()) {
    others.push_back({"the checkpoint", checkpoint});
    others.push_back({"the checkpoint before the last", checkpoint + ".1"});
  }
  refuse_shared_outputs({{"-o", flags.output}, {"--csv", flags.csv}}, others);
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

/// Where hosts miss devices, says what leaving these hosts out would do to the best plan.
/// *Collective.*
void compare_whole_hosts(const Flags& flags, const Ranks& ranks, const Task& task,
                         const std::optional<model::Plan>& plan) {
  const model::Cluster& cluster = task.setup.problem.cluster;
  const std::int64_t partial = network::partial_hosts(cluster);
  if (flags.quiet || partial == 0 || network::available_hosts(cluster).empty()) return;
  Setup other;
  other.problem = task.setup.problem;
  network::without_partial_hosts(other.problem.cluster);
  other.network = network::make_network(other.problem.cluster);
  const std::optional<model::Plan> whole = search(flags, other, ranks, nullptr, end_of(flags));
  if (!whole || whole->status != model::Status::kOptimal) return;
  const double change = whole->iteration_time_s / plan->iteration_time_s - 1;
  tell(flags,
       fmt::format("{} host{} a device; with --whole-hosts, which leaves {} out, an "
                   "iteration would take {}, {:.1f} % {}",
                   partial, partial == 1 ? " misses" : "s miss", partial == 1 ? "it" : "them",
                   util::format_seconds(whole->iteration_time_s), std::abs(change) * 100,
                   change < 0 ? "less" : "more"));
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
  const std::optional<model::Plan> plan = search(flags, task.setup, ranks, file, end_of(flags));
  ExitCode code = ExitCode::kDone;
  std::string document;
  ranks.together([&] {
    if (!plan) return;
    document = plan_document(*plan, task.setup);
    code = report(flags, *plan, task, document);
  });
  code = ranks.agree(code);
  if (file == nullptr) {
    if (code == ExitCode::kDone) compare_whole_hosts(flags, ranks, task, plan);
    return code;
  }
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
  ranks.together([&] {
    check_plan_flags(flags, ranks);
    if (ranks.speaks()) check_output(flags, flags.checkpoint);
  });
  if (asks_question(flags)) return answer(flags, ranks);
  Task task;
  SearchRecord record;
  const bool saves = !flags.checkpoint.empty();
  ranks.together([&] {
    if (!ranks.speaks()) return;
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

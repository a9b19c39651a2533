#include "nestplan/cli/app.hpp"

#include <functional>
#include <span>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/ranks.hpp"

namespace nestplan::cli {
namespace {

/// A command that one rank does for all.
ExitCode on_first(const Ranks& ranks, const std::function<ExitCode()>& command) {
  ExitCode code = ExitCode::kDone;
  ranks.together([&] {
    if (ranks.speaks()) code = command();
  });
  return ranks.agree(code);
}

}  // namespace

ExitCode run(int argc, const char* const* argv, const Ranks& ranks) {
  prepare_standard_streams();
  ranks.refuse_different_arguments(
      std::span(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0));
  const Invocation invocation = parse_command_line(
      argc, argv, [&](const std::string& path) { return ranks.read_text(path); });
  if (invocation.text) {
    print_result(*invocation.text);
    return ExitCode::kDone;
  }
  switch (invocation.command) {
    case Command::kPlan:
      return run_plan(invocation.flags, ranks);
    case Command::kResume:
      return run_resume(invocation.flags, invocation.files.front(), ranks);
    case Command::kEvaluate:
      return on_first(ranks,
                      [&] { return run_evaluate(invocation.flags, invocation.files.front()); });
    case Command::kSimulate:
      return on_first(ranks,
                      [&] { return run_simulate(invocation.flags, invocation.files.front()); });
    case Command::kReport:
      return on_first(ranks,
                      [&] { return run_report(invocation.flags, invocation.files.front()); });
    case Command::kExport:
      return on_first(ranks,
                      [&] { return run_export(invocation.flags, invocation.files.front()); });
    case Command::kCalibrate:
      return on_first(ranks, [&] { return run_calibrate(invocation.flags); });
    case Command::kCompare:
      return run_compare(invocation.flags, ranks);
    case Command::kImport:
      return on_first(ranks,
                      [&] { return run_import(invocation.flags, invocation.files.front()); });
    case Command::kBatch:
      return run_batch(invocation.flags, invocation.files.front(), ranks);
    case Command::kInspect:
      return on_first(ranks, [&] { return run_inspect(invocation.flags, invocation.files); });
  }
  throw InternalError("a command without a body");
}

}  // namespace nestplan::cli

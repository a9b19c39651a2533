#include "nestplan/cli/app.hpp"

#include <functional>

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
  const Invocation invocation = parse_command_line(argc, argv);
  if (invocation.text) {
    print_result(*invocation.text);
    return ExitCode::kDone;
  }
  switch (invocation.command) {
    case Command::kPlan:
      return run_plan(invocation.flags, ranks);
    case Command::kEvaluate:
      return on_first(ranks,
                      [&] { return run_evaluate(invocation.flags, invocation.files.front()); });
    case Command::kInspect:
      return on_first(ranks, [&] { return run_inspect(invocation.flags, invocation.files); });
  }
  throw InternalError("a command without a body");
}

}  // namespace nestplan::cli

#include "nestplan/cli/app.hpp"

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"

namespace nestplan::cli {

ExitCode run(int argc, const char* const* argv) {
  prepare_standard_streams();
  const Invocation invocation = parse_command_line(argc, argv);
  if (invocation.text) {
    print_result(*invocation.text);
    return ExitCode::kDone;
  }
  switch (invocation.command) {
    case Command::kPlan:
      return run_plan(invocation.flags);
    case Command::kEvaluate:
      return run_evaluate(invocation.flags, invocation.files.front());
    case Command::kInspect:
      return run_inspect(invocation.flags, invocation.files);
  }
  throw InternalError("a command without a body");
}

}  // namespace nestplan::cli

#include <fmt/format.h>

#include "cli/console.hpp"
#include "cli/ranks.hpp"
#include "nestplan/cli/app.hpp"

namespace {

using namespace nestplan;

ExitCode guarded_run(int argc, char** argv, const cli::Ranks& ranks) {
  if (!ranks.speaks()) cli::mute();
  try {
    return cli::run(argc, argv, ranks);
  } catch (const cli::AgreedFailure& failure) {
    return failure.code();
  } catch (...) {
    const auto [code, message] = cli::describe_failure();
    cli::print_message(fmt::format("nestplan: {}", message));
    return code;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const cli::Ranks ranks;
    return static_cast<int>(guarded_run(argc, argv, ranks));
  } catch (...) {
    const auto [code, message] = cli::describe_failure();
    cli::print_message(fmt::format("nestplan: {}", message));
    return static_cast<int>(code);
  }
}

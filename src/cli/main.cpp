#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>

#include "cli/console.hpp"
#include "nestplan/cli/app.hpp"
#include "nestplan/util/errors.hpp"

namespace {

using nestplan::ExitCode;

ExitCode fail(ExitCode code, const std::string& message) {
  nestplan::cli::print_message(fmt::format("nestplan: {}", message));
  return code;
}

ExitCode guarded_run(int argc, char** argv) {
  try {
    return nestplan::cli::run(argc, argv);
  } catch (const nestplan::InternalError& error) {
    return fail(error.code(), fmt::format("internal error: {}", error.what()));
  } catch (const nestplan::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::kOutOfMemory,
                "out of memory: the search does not fit into this machine; restrict it "
                "(--micro-batch, --tp, --pp, --dp) or use a larger one");
  } catch (const std::exception& error) {
    return fail(ExitCode::kInternalError, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace

int main(int argc, char** argv) { return static_cast<int>(guarded_run(argc, argv)); }

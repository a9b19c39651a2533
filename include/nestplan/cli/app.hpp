#pragma once

#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

/// Runs one command line (`argv[0]` is the program): results go to stdout, everything else to
/// stderr. Returns how it ended; throws what went wrong (see util/errors.hpp).
ExitCode run(int argc, const char* const* argv);

}  // namespace nestplan::cli

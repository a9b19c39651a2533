#pragma once

#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

class Ranks;

/// Runs one command line (`argv[0]` is the program): results go to stdout, everything else to
/// stderr. Returns how it ended, the same on all ranks; throws what went wrong (util/errors.hpp).
ExitCode run(int argc, const char* const* argv, const Ranks& ranks);

}  // namespace nestplan::cli

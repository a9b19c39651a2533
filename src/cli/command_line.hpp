#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags.hpp"

namespace nestplan::cli {

/// A command line, understood.
struct Invocation {
  Command command = Command::kPlan;
  Flags flags;
  /// `evaluate P`, `simulate P`, `export P`, `batch B`, `resume F`: one; `inspect F…`: any number
  std::vector<std::string> files;
  std::optional<std::string> text;  ///< `--help` or `--version`: print this and be done
};

/// Gives the text of a file.
using FileReader = std::function<std::string(const std::string& path)>;

/// Understands a command line; defaults < `--config` file < flags.
/// Throws InvalidConfig (flags) or InvalidInput (the file) with one line.
Invocation parse_command_line(int argc, const char* const* argv, const FileReader& read);

/// The options of `plan` as a file that `--config` reads back to the same options.
std::string dump_config(const Flags& flags);

}  // namespace nestplan::cli

#pragma once

#include <string>

#include "cli/flags.hpp"
#include "nestplan/io/files.hpp"

namespace nestplan::cli {

/// The options that find a plan again with the same inputs, questions beside it included, in the
/// order of `--help`. Defaults are left out, and so are the names of the inputs.
io::SearchOptions search_options(const Flags& flags);

/// As a shell takes them: " --tp 4 --explain".
std::string command_text(const io::SearchOptions& options);

/// What they leave of all plans: "tp 4, pp 8"; empty if they restrict nothing.
std::string restriction_text(const io::SearchOptions& options);

/// A word as a shell takes it.
std::string shell_word(const std::string& word);

}  // namespace nestplan::cli

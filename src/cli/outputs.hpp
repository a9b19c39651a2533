#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"

namespace nestplan::cli {

/// A file of a command line, and what it is there: its option, such as "--csv", or "the plan".
struct NamedFile {
  std::string role;
  std::string path;  ///< empty: not given
};

/// The inputs of a search, and where options come from.
std::vector<NamedFile> input_names(const Flags& flags);

/// Refuses outputs that are an input or another output, by whatever names: other spellings,
/// symbolic and hard links. Standard output, and what writing does not replace (pipes, devices),
/// may be shared. Throws InvalidConfig naming both files.
void refuse_shared_outputs(const std::vector<NamedFile>& outputs,
                           const std::vector<NamedFile>& inputs);

}  // namespace nestplan::cli

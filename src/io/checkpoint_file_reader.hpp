#pragma once

#include <exception>
#include <filesystem>
#include <memory>

#include "io/checkpoint_file_ranks.hpp"
#include "nestplan/io/checkpoint.hpp"

namespace nestplan::io {

/// What became of opening one generation, the same on all ranks.
struct OpenedGeneration {
  std::unique_ptr<CheckpointReader> reader;  ///< null if it is not good
  std::exception_ptr error;                  ///< why; InvalidInput, or IoError if the system failed
  /// It is intact, but something else: no reason to take another generation.
  bool foreign = false;
};

/// Opens and verifies one file. *Collective over `ranks`.*
OpenedGeneration open_generation(const std::filesystem::path& path, const Ranks& ranks);

/// Throws InvalidInput if `path` is a file that is clearly no checkpoint, whole or broken, and that
/// a checkpoint must therefore not replace. Not collective.
void refuse_foreign(const std::filesystem::path& path);

}  // namespace nestplan::io

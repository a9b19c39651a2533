#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/io/keys.hpp"

namespace nestplan::io {

/// Objects of a `nestplan.batch/1` document; the keys of `options` are the caller's.
namespace batch_keys {
extern const KeySet kBatch, kJob;
}

/// An option that a job may set, and how its value is written.
struct BatchOption {
  enum class Type {
    kSwitch,  ///< true or false
    kScalar,  ///< a number or text
    kList,    ///< the same, or a list of them
  };
  std::string name;
  Type type = Type::kScalar;
};

/// One job of a batch.
struct BatchJob {
  std::string name;
  std::string model, graph;  ///< paths; one of them is empty
  std::string cluster;       ///< path
  /// Values by option as they would stand on the command line; what the job does not set is the
  /// batch's default.
  std::map<std::string, std::vector<std::string>> options;
};

/// Reads the text of a `nestplan.batch/1` file, which `file` names in messages and whose directory
/// relative paths are relative to (the current one for a pipe). Job names are unique and fit to
/// name files: letters, digits and "._+@=-", not starting with "." or "-". Throws InvalidInput with
/// "file: field: what is wrong (what would be right)", also for options that are not among `known`.
std::vector<BatchJob> parse_batch(std::string_view text, const std::string& file,
                                  std::span<const BatchOption> known);

}  // namespace nestplan::io

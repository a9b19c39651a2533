#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "cli/inputs.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/solver/snapshot.hpp"

namespace nestplan::cli {

/// What a search is, as its checkpoint tells: enough to begin it anew.
struct SearchRecord {
  std::string version;                                     ///< of nestplan
  std::string fingerprint;                                 ///< of the problem with its costs
  std::map<std::string, std::vector<std::string>> values;  ///< `search_values`
  InputFiles files;

  /// As datasets below "run"; what is read back is what was written. Reading throws InvalidInput
  /// for what another program wrote.
  void write(solver::SnapshotWriter& out) const;
  static SearchRecord read(const solver::SnapshotReader& in);

  /// The flags of `plan` that decide on the plan, and the defaults of all others.
  Flags flags() const;
};

/// The record of a search by this program.
SearchRecord record_of(const Flags& flags, const InputFiles& files, const model::Problem& problem);

/// Hash of the problem with its costs and options.
std::string fingerprint_of(const model::Problem& problem);

/// Why `saved` is not the search `wanted`, by the first thing that differs; empty if it is.
std::string difference(const SearchRecord& saved, const SearchRecord& wanted);

}  // namespace nestplan::cli

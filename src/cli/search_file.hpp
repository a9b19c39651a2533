#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/inputs.hpp"
#include "cli/ranks.hpp"
#include "cli/search_record.hpp"
#include "nestplan/io/checkpoint.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// The checkpoint of a search that this run makes or goes on with: locked as long as the object
/// lives, with what was in it. All ranks have one; what fails on one fails on all of them, said
/// once.
///
/// It holds what the search is (SearchRecord) and how far it has come, or, once it is done, its
/// plan in place of that.
class SearchFile {
 public:
  /// Opens what is there after verifying it; `must_exist`: throws InvalidInput if there is nothing.
  /// *Collective.*
  SearchFile(const std::string& path, const Ranks& ranks, bool must_exist);

  /// The search in it; nothing if the file is new. Not collective.
  std::optional<SearchRecord> record() const;

  /// From here on this is the search in it. Given on the first rank.
  void set_record(SearchRecord record) { record_ = std::move(record); }

  /// What to go on from; null if nothing has been searched yet.
  const solver::SnapshotReader* state() const;

  /// The document of its plan if the search is done.
  std::optional<std::string> document() const;

  /// Makes the file if there is none, so that a search that dies early is known as well.
  /// *Collective.*
  void begin();

  /// Returns the bytes of the file. *Collective.*
  std::int64_t save(const std::function<void(solver::SnapshotWriter&)>& state);

  /// The search is done. Its tables are not needed any more, in none of the generations.
  /// *Collective.*
  void finish(const std::string& document);

  const std::string& path() const { return path_; }

 private:
  std::int64_t write(const std::function<void(solver::SnapshotWriter&)>& more);

  std::string path_;
  const Ranks& ranks_;
  std::optional<io::CheckpointFile> file_;
  std::unique_ptr<io::CheckpointReader> reader_;
  SearchRecord record_;
};

/// The plan that a finished search has left, costed again.
model::Plan plan_of(const std::string& document, const std::string& file, const Setup& setup);

}  // namespace nestplan::cli

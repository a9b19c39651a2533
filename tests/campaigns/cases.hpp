#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "campaigns/launch.hpp"

namespace nestplan::campaign {

/// One search: what `nestplan plan` is told, but for ranks and output.
struct Case {
  std::string name;
  Words flags;
  std::filesystem::path cluster;
  /// Memory is cut to one byte less than the plan needs that is best without this.
  bool tight = false;

  Words all_flags() const;
};

/// Searches of one sort, of which a short run takes some and a long one all.
struct Kind {
  std::string name;
  std::vector<Case> cases;
};

/// The cases there are, by kind; without those of `shared` where there is no such directory beside
/// the checkout. Large clusters, whose searches take a while, only with `all_sizes`. Files made for
/// them are in `directory`.
std::vector<Kind> kinds(const std::filesystem::path& directory, bool all_sizes);

/// The folder of test data beside the checkout.
std::filesystem::path shared_directory();

/// A copy of the cluster file, in `directory`, whose devices have that much memory and all of it.
std::filesystem::path with_memory(const std::filesystem::path& cluster, long long bytes,
                                  const std::filesystem::path& directory);

}  // namespace nestplan::campaign

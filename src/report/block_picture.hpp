#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/model/cluster.hpp"
#include "report/html.hpp"
#include "report/place_uses.hpp"

namespace nestplan::report {

/// The blocks of a hierarchy as intervals of places.
class BlockTree {
 public:
  explicit BlockTree(const model::HierarchySpec& spec);

  int levels() const { return static_cast<int>(ends_.size()); }
  const std::string& name(int level) const { return names_[static_cast<std::size_t>(level)]; }
  std::int64_t places() const { return ends_.back().back(); }
  /// A block of level -1 is a place.
  std::int64_t begin(int level, std::int64_t block) const;
  std::int64_t end(int level, std::int64_t block) const;
  std::int64_t block_of(int level, std::int64_t place) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> ends_;  ///< by level and block
};

/// Neighbouring places.
struct PlaceSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// What a picture of blocks shows of them.
struct BlockDetail {
  int cells = -1;       ///< level of the blocks that are drawn as one cell
  bool labels = false;  ///< cells say what they are
};
BlockDetail detail_of(const BlockTree& tree, const PlaceSpan& span);

/// What is there beside the places of the span.
struct BlockContents {
  bool others = false;  ///< busy, of other pods
  bool free = false;    ///< idle or not available
};

/// The blocks that hold the places of `span`, nested in each other down to the devices, or to the
/// blocks of the level that there are not too many of: these are then striped with what is in
/// them.
BlockContents write_blocks(Html& html, const BlockTree& tree, const std::vector<PlaceUse>& uses,
                           const Looks& looks, const PlaceSpan& span);

/// All pods as boxes, inside of blocks that no pod straddles, as small ones as can be drawn. Of
/// more pods than can be drawn, a box stands for several.
void write_pods(Html& html, const BlockTree& tree, const std::vector<PlaceSpan>& pods);

}  // namespace nestplan::report

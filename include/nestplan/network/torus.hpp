#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nestplan/model/cluster.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::network {

inline constexpr std::size_t kMostTorusDimensions = 6;
inline constexpr std::int64_t kMostTorusPlaces = 4'194'304;

/// The coordinates along one dimension of a group that is a product of such rows: `first`,
/// `first + stride` …
struct TorusRow {
  std::int64_t first = 0;
  std::int64_t members = 1;
  std::int64_t stride = 1;
  bool closed = false;  ///< the last and the first are neighbours too, `stride` apart
  bool operator==(const TorusRow&) const = default;
};

/// One row for every dimension.
using TorusBox = std::vector<TorusRow>;

/// Whether the boxes whose rows have these lengths can be walked along once with every step, the
/// closing one included, to a neighbour: a closed row can, no other single row of three or more;
/// with two dimensions or more (of two members or more) all but those of odd rows none of which is
/// closed. `closed` is as long as `members`.
bool has_cycle(std::span<const std::int64_t> members, std::span<const bool> closed);

/// The places of a torus or mesh and their order.
///
/// A place's number is written in mixed radix with prime radices; every digit belongs to one
/// dimension, and a coordinate is the number made of its dimension's digits. So every aligned block
/// of numbers is a box, all blocks of a size are translations of each other, and devices a block's
/// size apart form sub-lattices of strides that are the same everywhere. Digits go from the host's
/// box to the cube's to the whole; in between the least prime goes first and, among the dimensions
/// that have it, the narrowest (then the first) one, so that boxes stay near cubes. Slices, where
/// there are several, come last.
///
/// The order is not reflected, as a Gray code is. Over two values a digit, maps from numbers to
/// coordinates that keep aligned blocks boxes are triangular one way, those that keep cosets of
/// aligned blocks (the members at one index of their tensor groups) sub-lattices are triangular the
/// other way, and only the plain order is both. Cosets decide what the large collectives take; what
/// a reflected order would gain, neighbours one after the other, ring() gives where it counts.
class TorusGrid {
 public:
  /// Throws InvalidInput for a torus that cannot be: no dimension or too many, sizes below 1, hosts
  /// that do not divide cubes, cubes that do not divide the whole, slices that are not
  /// the last dimension.
  explicit TorusGrid(const model::TorusSpec& spec);

  std::size_t dimensions() const { return size_.size(); }
  /// Whether the dimension is the one of slices.
  bool is_switched(std::size_t dimension) const {
    return has_slices_ && dimension + 1 == size_.size();
  }
  std::int64_t places() const { return places_; }
  /// Coordinate of a place in a dimension.
  std::int64_t coordinate(std::int64_t place, std::size_t dimension) const {
    return coordinate_[static_cast<std::size_t>(place) * size_.size() + dimension];
  }
  std::vector<std::int64_t> coordinates(std::int64_t place) const;
  std::int64_t place(std::span<const std::int64_t> coordinates) const;

  /// Sizes of the aligned blocks, from the single place to the whole, each dividing the next.
  std::span<const std::int64_t> block_sizes() const { return block_; }
  /// Extents of the blocks of size block_sizes()[index].
  std::span<const std::int64_t> extents(std::size_t index) const { return extent_[index]; }

  /// Hops between two coordinates of a dimension.
  std::int64_t hops(std::size_t dimension, std::int64_t from, std::int64_t to) const {
    const std::int64_t offset = from < to ? to - from : from - to;
    if (is_switched(dimension)) return offset == 0 ? 0 : 1;
    return wrap_[dimension] ? std::min(offset, size_[dimension] - offset) : offset;
  }
  /// The most hops within a dimension.
  std::int64_t most_hops(std::size_t dimension) const {
    if (is_switched(dimension)) return size_[dimension] > 1 ? 1 : 0;
    return wrap_[dimension] ? size_[dimension] / 2 : size_[dimension] - 1;
  }

  /// The rows of a group of distinct places if it is a product of arithmetic progressions. A row is
  /// closed if it goes round a dimension that wraps, if it is one of slices, or if the box that it
  /// and those between its members fill is one of whole cubes, in every dimension.
  std::optional<TorusBox> box(std::span<const std::int64_t> members) const;

  /// The members of a group (distinct places) as a ring. Of a product of arithmetic progressions,
  /// one stride counting as a hop, all steps are to neighbours where has_cycle(); else all but the
  /// closing one, which is of two hops for odd rows and of the whole row for a single one. Any
  /// other group in the order of its places.
  std::vector<std::int64_t> ring(std::span<const std::int64_t> members) const;

  /// Digits of one dimension that follow each other without leaving a host or a cube.
  struct Run {
    std::int64_t block = 1;  ///< size of the blocks below
    std::int64_t count = 1;  ///< product of the digits' radices
  };
  std::span<const Run> runs() const { return run_; }

 private:
  void grow_to(std::span<const std::int64_t> target);
  void close_rows(TorusBox& box) const;

  std::vector<std::int64_t> size_;
  std::vector<char> wrap_;
  bool has_slices_ = false;
  std::vector<std::int64_t> cube_;  ///< empty: there are none
  std::int64_t places_ = 1;
  std::vector<std::int64_t> block_;
  std::vector<std::vector<std::int64_t>> extent_;
  std::vector<Run> run_;
  std::vector<std::vector<std::int64_t>> place_of_;  ///< what a coordinate adds to the number
  std::vector<std::int32_t> coordinate_;             ///< of all dimensions, place by place
};

/// Why a part of a torus of that many devices per dimension is not one that can be asked for, or
/// nothing if it is: it must lie inside and must not cut hosts.
std::optional<std::string> slice_problem(const model::TorusSpec& spec,
                                         std::span<const std::int64_t> box);

/// Why degrees of parallelism do not fit several slices joined by a slower network, or nothing if
/// they do: the product of those over the slower network must be the number of slices and that of
/// the others the chips of a slice, each by itself.
std::optional<std::string> slice_degrees_problem(std::int64_t slices, std::int64_t slice_chips,
                                                 std::span<const std::int64_t> slow,
                                                 std::span<const std::int64_t> fast);

/// The network of a torus, or of its first `limit` places. Throws InvalidInput as TorusGrid does,
/// and for an algorithm that is not known.
std::unique_ptr<Network> make_torus(const model::TorusSpec& spec,
                                    std::optional<std::int64_t> limit = {});

}  // namespace nestplan::network

#pragma once

#include <bit>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "nestplan/model/graph.hpp"
#include "nestplan/util/array.hpp"

namespace nestplan::lattice {

/// Index of a downset: 0 is the empty set, size()-1 the whole graph. A proper subset always has
/// the smaller index.
using DownsetId = std::int32_t;

/// An enumeration was told to stop.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

/// The downsets of a model graph: the sets of layers that contain all successors of their members,
/// in other words the suffixes in which a pipeline can be cut. They are numbered by (cardinality,
/// members), so that waves of equal cardinality are contiguous and the order is reproducible.
///
/// Memory: `words()` 64-bit words and about 30 bytes a downset, which copies share. A graph of `n`
/// layers in a row has `n + 1` downsets, two parallel branches of `n` have `(n + 1)²`.
class Lattice {
 public:
  /// All downsets of `graph`. Wave by wave: a set grows by any layer whose successors it holds.
  /// Time O(downsets · layers · words). Throws MemoryLimit beyond `max_downsets`, Interrupted when
  /// `stop` (asked wave by wave, may be empty) says so.
  static Lattice enumerate(const model::Graph& graph, std::int64_t max_downsets = kDefaultMax,
                           const std::function<bool()>& stop = {});

  /// Only the downsets of one chain: `stages` from the first to the last, together all layers.
  /// Throws InvalidInput if an edge leads backwards or a layer is missing or doubled.
  static Lattice of_chain(const model::Graph& graph, const std::vector<std::vector<int>>& stages);

  /// Beyond this no search ends: the pairs of downsets are what it works on.
  static constexpr std::int64_t kDefaultMax = 2'000'000;

  /// The lattice of the process that fills `storage`, for all of its processes, in there. The
  /// others need none of their own. *Collective over the processes of `storage`.*
  static Lattice shared(const std::optional<Lattice>& mine, util::Storage& storage);

  DownsetId size() const { return static_cast<DownsetId>(cardinality_.size()); }
  DownsetId whole() const { return size() - 1; }
  int layers() const { return layers_; }
  int words() const { return words_; }
  int cardinality(DownsetId d) const { return cardinality_[static_cast<std::size_t>(d)]; }

  /// Members as a bit set over layer indices.
  std::span<const std::uint64_t> members(DownsetId d) const {
    return {bits_.data() + static_cast<std::size_t>(d) * static_cast<std::size_t>(words_),
            static_cast<std::size_t>(words_)};
  }
  bool contains(DownsetId d, int layer) const {
    return (members(d)[static_cast<std::size_t>(layer) / 64] >> (layer % 64) & 1U) != 0;
  }

  /// `inner ⊆ outer`.
  bool subset(DownsetId inner, DownsetId outer) const {
    const auto a = members(inner);
    const auto b = members(outer);
    for (std::size_t w = 0; w < a.size(); ++w) {
      if ((a[w] & ~b[w]) != 0) return false;
    }
    return true;
  }

  /// Whether every downset contains all those before it, as for layers in a row.
  bool totally_ordered() const { return totally_ordered_; }

  /// First downset with more members than `d`; size() if there is none.
  DownsetId next_wave(DownsetId d) const {
    return wave_begin_[static_cast<std::size_t>(cardinality(d)) + 1];
  }

  /// The downsets that are one step larger than `d`, ascending: by one layer, or, for a chain of
  /// stages, by one stage. Whatever contains `d` and is not `d` contains one of them.
  std::span<const DownsetId> above(DownsetId d) const {
    const auto begin = above_begin_[static_cast<std::size_t>(d)];
    const auto end = above_begin_[static_cast<std::size_t>(d) + 1];
    return {above_.data() + begin, static_cast<std::size_t>(end - begin)};
  }

  /// A downset that is one step smaller than `d`, which is not empty.
  DownsetId below(DownsetId d) const { return below_[static_cast<std::size_t>(d)]; }

  /// Members of `outer` that are not in `inner`, ascending.
  std::vector<int> difference(DownsetId outer, DownsetId inner) const;

 private:
  Lattice() = default;
  struct Steps {
    std::vector<std::int64_t> begin;
    std::vector<DownsetId> above;
  };
  Lattice(int layers, std::vector<std::uint64_t> bits, Steps steps);

  int layers_ = 0;
  int words_ = 0;
  util::Array<std::uint64_t> bits_;
  util::Array<int> cardinality_;
  util::Array<DownsetId> wave_begin_;      ///< by cardinality, layers()+2 entries
  util::Array<std::int64_t> above_begin_;  ///< by downset, size()+1 entries
  util::Array<DownsetId> above_;
  util::Array<DownsetId> below_;
  bool totally_ordered_ = false;
};

}  // namespace nestplan::lattice

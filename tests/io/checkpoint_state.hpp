#pragma once

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "nestplan/io/checkpoint.hpp"
#include "support/dice.hpp"

namespace nestplan::io::test_state {

/// A state that is told by one number, of every kind of array, in any distribution over ranks.
struct State {
  std::uint64_t seed = 1;
  std::int64_t table_size = 100;

  std::string problem() const {
    using namespace std::string_literals;
    return "problem " + std::to_string(seed) + "\n\0 with a zero, ü, and zeros: \0\0"s;
  }
  std::vector<std::int64_t> counts() const {
    return {0, -1, std::numeric_limits<std::int64_t>::min(),
            std::numeric_limits<std::int64_t>::max(), static_cast<std::int64_t>(seed)};
  }
  std::vector<double> incumbent() const {
    const double infinity = std::numeric_limits<double>::infinity();
    return {infinity, -infinity, 0.0, -0.0, 5e-324, static_cast<double>(seed) / 3};
  }
  double table(std::int64_t index) const {
    if (index % 7 == 3) return std::numeric_limits<double>::infinity();
    return static_cast<double>(index) + static_cast<double>(seed) / 7;
  }
};

/// Which of `ranks` ranks has the piece with that number.
using Owner = std::function<int(std::int64_t piece)>;

/// The pieces of one rank and the values they refer to.
class Pieces {
 public:
  Pieces(std::int64_t size, std::uint64_t seed, int rank, const Owner& owner,
         const std::function<double(std::int64_t)>& value) {
    testing::Dice dice(seed);
    std::int64_t number = 0;
    for (std::int64_t at = 0; at < size; ++number) {
      const std::int64_t most = dice.chance(20) ? 40000 : dice.pick({1, 17, 900});
      const std::int64_t count = std::min(size - at, dice.between(0, most));
      if (owner(number) == rank) {
        values_.emplace_back();
        for (std::int64_t i = 0; i < count; ++i) values_.back().push_back(value(at + i));
        offsets_.push_back(at);
      }
      at += count;
    }
    for (std::size_t i = offsets_.size(); i-- > 0;) {  // not in order
      pieces_.push_back({offsets_[i], values_[i]});
    }
  }
  std::span<const solver::Piece> get() const { return pieces_; }

 private:
  std::vector<std::vector<double>> values_;
  std::vector<std::int64_t> offsets_;
  std::vector<solver::Piece> pieces_;
};

inline int first_rank(std::int64_t) { return 0; }

/// What all ranks save, of which this one has the pieces that `owner` gives to it.
inline void save(solver::SnapshotWriter& writer, const State& state, int rank = 0,
                 const Owner& owner = first_rank) {
  writer.text("problem", rank == 0 ? state.problem() : "only rank 0 knows");
  writer.text("empty/text", "");
  writer.integers("search/counts", state.counts());
  writer.integers("empty/integers", {});
  writer.reals("search/incumbent", state.incumbent());
  const Pieces table(state.table_size, state.seed, rank, owner,
                     [&](std::int64_t i) { return state.table(i); });
  writer.pieces("search/table", state.table_size, table.get());
  writer.pieces("empty/pieces", 0, {});
  const Pieces few(3, state.seed + 1, rank, owner,
                   [](std::int64_t i) { return -static_cast<double>(i); });
  writer.pieces("search/few", 3, few.get());
}

inline bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Whether all values are those of `state`. Lets the reader's exceptions through.
inline bool holds(const solver::SnapshotReader& reader, const State& state) {
  bool good = reader.text("problem") == state.problem() && reader.text("empty/text").empty() &&
              reader.integers("search/counts") == state.counts() &&
              reader.integers("empty/integers").empty() && reader.size("empty/pieces") == 0 &&
              reader.size("search/few") == 3 && reader.size("search/table") == state.table_size;
  const std::vector<double> incumbent = reader.reals("search/incumbent");
  const std::vector<double> expected = state.incumbent();
  good = good && incumbent.size() == expected.size();
  for (std::size_t i = 0; good && i < expected.size(); ++i) {
    good = same_bits(incumbent[i], expected[i]);
  }
  if (!good) return false;
  std::vector<double> few(3);
  reader.read("search/few", 0, few);
  std::vector<double> table(static_cast<std::size_t>(state.table_size));
  reader.read("search/table", 0, table);
  for (std::size_t i = 0; i < table.size(); ++i) {
    good = good && same_bits(table[i], state.table(static_cast<std::int64_t>(i)));
  }
  return good && same_bits(few[0], -0.0) && same_bits(few[2], -2.0);
}

/// A file system of its own, where that is allowed.
class SmallDisk {
 public:
  SmallDisk(const std::string& path, const std::string& size)
      : path_(path),
        there_(::mount("none", path.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0) {}
  ~SmallDisk() {
    if (there_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool there() const { return there_; }

 private:
  std::string path_;
  bool there_;
};

inline void no_warning(const std::string& warning) { ADD_FAILURE() << warning; }

}  // namespace nestplan::io::test_state

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint_file_ranks.hpp"
#include "nestplan/solver/snapshot.hpp"

namespace nestplan::io {

/// Brings the scattered pieces of a partitioned array into order, a round at a time: a round is an
/// interval of the array that is cut into one chunk of whole blocks for each of the first ranks,
/// which get it from whoever has pieces of it. What reaches the file system are then a few large
/// contiguous writes. A rank needs room for three chunks of at most 8 MiB, however large the array
/// is, and up to 128 MiB if it has all of a round for many ranks.
class PieceRounds {
 public:
  /// Throws InternalError if pieces of this rank leave the array or overlap.
  PieceRounds(std::string name, std::int64_t size, std::span<const solver::Piece> mine,
              const Ranks& ranks);

  std::int64_t rounds() const { return rounds_; }

  struct Chunk {
    std::int64_t offset = 0;
    std::span<const double> values;  ///< valid until the next call; often empty in the last round
  };

  /// This rank's chunk of a round. Throws InternalError on all ranks if a value is NaN, missing or
  /// there twice. *Collective.*
  Chunk gather(std::int64_t round);

 private:
  struct Segment {
    std::int64_t offset = 0;
    std::int64_t count = 0;
  };

  std::int64_t chunk_begin(std::int64_t round, int rank) const;
  /// Fills `sent_` with what others need, and places what this rank keeps. Words by rank.
  std::vector<int> pack(std::int64_t round);
  void send(std::int64_t offset, std::span<const double> values);
  void unpack();
  void place(std::int64_t offset, std::span<const double> values);
  void check_complete();

  const Ranks& ranks_;
  std::string name_;  ///< for messages
  std::int64_t size_;
  std::vector<solver::Piece> mine_;  ///< sorted by offset
  std::int64_t writers_;
  std::int64_t chunk_values_;
  std::int64_t rounds_;
  std::int64_t begin_ = 0;  ///< of this rank's chunk
  std::vector<double> values_;
  std::vector<double> sent_;  ///< segments: offset and count, as bits, and values
  std::vector<double> received_;
  std::vector<Segment> placed_;
};

}  // namespace nestplan::io

#include "io/checkpoint_file_pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "io/checkpoint_file_hash.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::io {
namespace {

/// Values of a chunk and of a round at most: 8 and 128 MiB.
constexpr std::int64_t kMostChunkValues = std::int64_t{1} << 20;
constexpr std::int64_t kMostRoundValues = std::int64_t{1} << 24;

/// A segment travels as its offset, its count and its values.
constexpr std::int64_t kHeadWords = 2;

std::int64_t end_of(const solver::Piece& piece) {
  return piece.offset + static_cast<std::int64_t>(piece.values.size());
}

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

std::vector<solver::Piece> sorted(const std::string& name, std::int64_t size,
                                  std::span<const solver::Piece> mine) {
  std::vector<solver::Piece> result;
  for (const solver::Piece& piece : mine) {
    if (piece.offset < 0 || end_of(piece) > size) {
      throw InternalError(fmt::format("{}: a piece at {} with {} values leaves an array of {}",
                                      name, piece.offset, piece.values.size(), size));
    }
    if (!piece.values.empty()) result.push_back(piece);
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < result.size(); ++i) {
    if (end_of(result[i - 1]) > result[i].offset) {
      throw InternalError(
          fmt::format("{}: two pieces have the value at {}", name, result[i].offset));
    }
  }
  return result;
}

}  // namespace

PieceRounds::PieceRounds(std::string name, std::int64_t size, std::span<const solver::Piece> mine,
                         const Ranks& ranks)
    : ranks_(ranks),
      name_(std::move(name)),
      size_(size),
      mine_(sorted(name_, size, mine)),
      writers_(std::min<std::int64_t>(ranks.size(), kMostRoundValues / kBlockValues)) {
  const std::int64_t shared = round_up((size + writers_ - 1) / writers_, kBlockValues);
  chunk_values_ =
      std::clamp(std::min(shared, kMostRoundValues / writers_ / kBlockValues * kBlockValues),
                 kBlockValues, kMostChunkValues);
  const std::int64_t per_round = chunk_values_ * writers_;
  rounds_ = (size + per_round - 1) / per_round;
}

std::int64_t PieceRounds::chunk_begin(std::int64_t round, int rank) const {
  const std::int64_t chunk = round * writers_ + std::min<std::int64_t>(rank, writers_);
  return std::min(size_, chunk * chunk_values_);
}

PieceRounds::Chunk PieceRounds::gather(std::int64_t round) {
  begin_ = chunk_begin(round, ranks_.rank());
  const std::int64_t count = chunk_begin(round, ranks_.rank() + 1) - begin_;
  std::vector<int> to;
  ranks_.agree([&] {
    values_.resize(static_cast<std::size_t>(count));
    placed_.clear();
    to = pack(round);
  });
  const std::vector<int> from = ranks_.exchange_counts(to);
  ranks_.agree([&] {
    const std::int64_t total = std::accumulate(from.begin(), from.end(), std::int64_t{0});
    if (total > (kHeadWords + 1) * count) {
      throw InternalError(
          fmt::format("{}: there are more values than {} from {} on", name_, count, begin_));
    }
    received_.resize(static_cast<std::size_t>(total));
  });
  ranks_.exchange(sent_, to, received_, from);
  ranks_.agree([&] {
    unpack();
    check_complete();
  });
  return {begin_, values_};
}

std::vector<int> PieceRounds::pack(std::int64_t round) {
  std::vector<int> words_to(static_cast<std::size_t>(ranks_.size()), 0);
  sent_.clear();
  auto piece = std::partition_point(mine_.begin(), mine_.end(), [&](const solver::Piece& p) {
    return end_of(p) <= chunk_begin(round, 0);
  });
  for (int rank = 0; rank < writers_; ++rank) {
    const std::int64_t begin = chunk_begin(round, rank);
    const std::int64_t end = chunk_begin(round, rank + 1);
    const std::size_t words_before = sent_.size();
    for (; piece != mine_.end() && piece->offset < end; ++piece) {
      const std::int64_t first = std::max(begin, piece->offset);
      const auto part =
          piece->values.subspan(static_cast<std::size_t>(first - piece->offset),
                                static_cast<std::size_t>(std::min(end, end_of(*piece)) - first));
      rank == ranks_.rank() ? place(first, part) : send(first, part);
      if (end_of(*piece) > end) break;  // the rest is another rank's
    }
    words_to[static_cast<std::size_t>(rank)] = static_cast<int>(sent_.size() - words_before);
  }
  return words_to;
}

void PieceRounds::send(std::int64_t offset, std::span<const double> values) {
  sent_.push_back(std::bit_cast<double>(offset));
  sent_.push_back(std::bit_cast<double>(values.size()));
  sent_.insert(sent_.end(), values.begin(), values.end());
}

void PieceRounds::unpack() {
  std::span<const double> words = received_;
  while (!words.empty()) {
    const auto offset = std::bit_cast<std::int64_t>(words[0]);
    const auto count = std::bit_cast<std::size_t>(words[1]);
    place(offset, words.subspan(kHeadWords, count));
    words = words.subspan(kHeadWords + count);
  }
}

void PieceRounds::place(std::int64_t offset, std::span<const double> values) {
  std::copy(values.begin(), values.end(), values_.begin() + (offset - begin_));
  placed_.push_back({offset, static_cast<std::int64_t>(values.size())});
}

void PieceRounds::check_complete() {
  std::sort(placed_.begin(), placed_.end(),
            [](const Segment& a, const Segment& b) { return a.offset < b.offset; });
  std::int64_t next = begin_;
  for (const Segment& segment : placed_) {
    if (segment.offset != next) break;
    next += segment.count;
  }
  const bool all = next == begin_ + static_cast<std::int64_t>(values_.size());
  if (!all || (!placed_.empty() && placed_.back().offset + placed_.back().count != next)) {
    throw InternalError(
        fmt::format("{}: no piece, or more than one, has the value at {}", name_, next));
  }
  for (const double value : values_) {
    if (std::isnan(value))
      throw InternalError(fmt::format("{}: NaN is no value of a checkpoint", name_));
  }
}

}  // namespace nestplan::io

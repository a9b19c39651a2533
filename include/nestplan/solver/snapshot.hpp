#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nestplan::solver {

/// A part of a partitioned array: its values from `offset` on.
struct Piece {
  std::int64_t offset = 0;
  std::span<const double> values;
};

/// What the state of a search is written to: named arrays, whose names are paths like
/// "search/board/bound". *All calls are collective over the ranks that save, with the same names
/// and sizes in the same order.*
class SnapshotWriter {
 public:
  virtual ~SnapshotWriter() = default;

  /// Rank 0's value.
  virtual void text(const std::string& name, std::string_view value) = 0;
  virtual void integers(const std::string& name, std::span<const std::int64_t> values) = 0;
  virtual void reals(const std::string& name, std::span<const double> values) = 0;

  /// An array of `size` values that lies in pieces on the ranks, which together cover it once; a
  /// rank may have none. Infinity is a value, NaN is not.
  virtual void pieces(const std::string& name, std::int64_t size, std::span<const Piece> mine) = 0;
};

/// A state that was saved. No call is collective. Throws InvalidInput for a name that is not there
/// or has another type, IoError for data that is not what was written.
class SnapshotReader {
 public:
  virtual ~SnapshotReader() = default;

  virtual bool has(const std::string& name) const = 0;
  virtual std::string text(const std::string& name) const = 0;
  virtual std::vector<std::int64_t> integers(const std::string& name) const = 0;
  virtual std::vector<double> reals(const std::string& name) const = 0;

  /// Size of a partitioned array, and `values.size()` of its values from `offset` on.
  virtual std::int64_t size(const std::string& name) const = 0;
  virtual void read(const std::string& name, std::int64_t offset,
                    std::span<double> values) const = 0;
};

}  // namespace nestplan::solver

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/solver/snapshot.hpp"

namespace nestplan::mpi {
class Comm;
}  // namespace nestplan::mpi

namespace nestplan::io {

/// The file in which a long search saves itself, an HDF5 file whose layout does not depend on the
/// number of ranks (`nestplan.checkpoint/1`):
///
///   /               attributes `format`, `description` and `hash_function` (text)
///   /state/NAME     one dataset for each array that the search has named. Attribute `kind`:
///                     "text"      one string of `bytes` bytes, padded by a zero if it is empty
///                     "integers"  64-bit signed
///                     "reals"     64-bit IEEE
///                     "pieces"    64-bit IEEE, saved by all ranks together
///                   `hash` is that of the values; "pieces" have `block_values` and `block_hashes`
///                   (the path of the next) instead
///   /hashes/NAME    for "pieces": the hash of every block of `block_values` (2^15) values
///
/// Everything is little-endian. HDF5 itself checks its metadata (superblock 3, object headers 2).
/// The hash of values with 64 bits each, of which the first has the index `first` in its array, is
///
///   Σ mix(bits[i] + (first + i + 1)·0x9e3779b97f4a7c15) mod 2^64,
///
/// where mix is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom
/// number generators, OOPSLA 2014). It is a bijection: a change of one value always changes the
/// sum. Text counts as little-endian words of 8 bytes, padded by zeros.

/// The path of a checkpoint: PATH itself, the previous generation PATH.1, PATH.tmp while it is
/// written, and PATH.lock, which this process holds as long as the object lives. Links are
/// followed.
class CheckpointFile {
 public:
  /// `comm` is every rank that saves, and outlives this; null is a single process without MPI.
  /// Throws IoError if the directory is not there, cannot be written, is not the same on all ranks,
  /// cannot lock files, or if another process holds the lock (which the kernel gives back when a
  /// process dies), and InvalidInput if PATH exists and is no checkpoint. *Collective over `comm`.*
  CheckpointFile(std::filesystem::path path, const mpi::Comm* comm);
  ~CheckpointFile();
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;

  using Fill = std::function<void(solver::SnapshotWriter&)>;
  /// Hears on every rank what `write` has just done.
  using Observer = std::function<void(std::string_view step)>;

  /// Makes a new generation of what `fill` writes, which keeps the last one as PATH.1 if it is
  /// good. It is on the disk when this returns, and some good generation is at every moment before.
  /// Any failure on any rank, also an exception from `fill`, is thrown on all of them, and leaves
  /// the generations as they were: IoError, or InternalError for what may not be saved.
  /// *Collective.* Returns the bytes of the file.
  std::int64_t write(const Fill& fill, const Observer& observer = {});

  /// Removes all generations: the search is done. Throws IoError. *Collective.*
  void discard();

  const std::filesystem::path& path() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

/// A saved state. Not for use by several threads at once.
class CheckpointReader : public solver::SnapshotReader {
 public:
  enum class Kind { kText, kIntegers, kReals, kPieces };

  struct Entry {
    std::string name;
    Kind kind = Kind::kText;
    std::int64_t size = 0;  ///< values; of text: bytes
  };

  /// The generation that is read.
  virtual const std::filesystem::path& path() const = 0;
  /// What there is, sorted by name.
  virtual const std::vector<Entry>& entries() const = 0;
};

/// How `kind` is called in files.
std::string_view name_of(CheckpointReader::Kind kind);

/// Opens a checkpoint after verifying all of it, which the ranks of `comm` (null: this process)
/// share among them. Where `path` is missing or damaged and its previous generation is good, that
/// is opened, and `warn` called on every rank with one line. Afterwards the ranks read on their
/// own, what was opened even if the path is replaced, and every value is verified once more.
///
/// Throws InvalidInput for files that are missing, damaged, something else, or of another version
/// of the format; IoError if the system fails. The same on all ranks. *Collective over `comm`.*
std::unique_ptr<CheckpointReader> open_checkpoint(
    const std::filesystem::path& path, const mpi::Comm* comm,
    const std::function<void(const std::string& warning)>& warn);

}  // namespace nestplan::io

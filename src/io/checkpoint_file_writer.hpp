#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "io/checkpoint_file_ranks.hpp"
#include "io/descriptor.hpp"
#include "io/hdf5.hpp"
#include "nestplan/io/checkpoint.hpp"
#include "nestplan/solver/snapshot.hpp"

namespace nestplan::io {

/// The file that a generation is written to before it has its name. Gone with this object unless it
/// was renamed. Construction, `sync` and `reserve` are collective.
class TemporaryFile {
 public:
  /// Made by rank 0 and opened by all, so that HDF5 need not find out what cannot be.
  TemporaryFile(std::filesystem::path path, const Ranks& ranks);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Makes sure that the first `bytes` fit on the disk, where the file system can tell: HDF5 cannot
  /// be trusted to survive a full one.
  void reserve(std::int64_t bytes);
  /// Gives back all of the disk, whoever has the file open. Not collective.
  void empty();
  /// Gives back what was reserved in vain, and waits for the disk. Returns the bytes of the file.
  std::int64_t sync();
  void renamed() { renamed_ = true; }  ///< not collective

 private:
  std::filesystem::path path_;
  const Ranks& ranks_;
  std::optional<Descriptor> file_;
  std::int64_t reserved_ = 0;
  bool renamed_ = false;
};

/// Writes a state into a temporary file.
///
/// A failure of HDF5 on some ranks leaves those out of step with the others inside HDF5, which
/// would wait for each other for ever: the file is then left open, never to be touched again.
class StateWriter : public solver::SnapshotWriter {
 public:
  StateWriter(TemporaryFile& temporary, const Ranks& ranks);
  ~StateWriter() override;

  void text(const std::string& name, std::string_view value) override;
  void integers(const std::string& name, std::span<const std::int64_t> values) override;
  void reals(const std::string& name, std::span<const double> values) override;
  void pieces(const std::string& name, std::int64_t size,
              std::span<const solver::Piece> mine) override;

  /// Lets `fill` write, and throws on all ranks what goes wrong on any. *Collective.*
  void run(const CheckpointFile::Fill& fill);
  /// *Collective.*
  void close();

 private:
  using Kind = CheckpointReader::Kind;

  /// `work` without HDF5: on all ranks or none.
  void agree(const std::function<void()>& work, std::uint64_t call = 0);
  /// `work` with HDF5: a failure ends all dealings with it.
  void agree_on_hdf5(const std::function<void()>& work);

  /// A new array, the same on all ranks.
  void begin(Kind kind, const std::string& name, std::int64_t size);
  void claim(const std::string& name);
  hdf5::Dataset create(const std::string& path, hdf5::Element element, std::int64_t size);
  /// An array of which rank 0 has the values.
  template <typename Value>
  void small(const std::string& path, hdf5::Element element, std::string_view kind,
             std::span<const Value> values);
  /// Collective transfers of rank 0's values.
  template <typename Value>
  void transfer(hdf5::Dataset& dataset, std::span<const Value> values);

  TemporaryFile& temporary_;
  const Ranks& ranks_;
  std::optional<hdf5::File> file_;
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> groups_;
  bool out_of_step_ = false;
  std::exception_ptr settled_;  ///< what all ranks have thrown
};

}  // namespace nestplan::io

#include "io/checkpoint_file_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "io/checkpoint_file_format.hpp"
#include "io/checkpoint_file_hash.hpp"
#include "io/checkpoint_file_path.hpp"
#include "io/descriptor.hpp"
#include "io/hdf5.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::io {
namespace {

namespace fs = std::filesystem;
using Kind = CheckpointReader::Kind;

/// Values that are read at once: 8 MiB.
constexpr std::int64_t kReadValues = 32 * kBlockValues;

std::string damaged(const fs::path& path, const std::string& how) {
  return fmt::format("{}: is damaged: {}", path.string(), how);
}

/// Thrown where an intact file turns out to be something else.
class Foreign : public InvalidInput {
  using InvalidInput::InvalidInput;
};

std::optional<Kind> kind_of(std::string_view name) {
  for (const Kind kind : {Kind::kText, Kind::kIntegers, Kind::kReals, Kind::kPieces}) {
    if (name_of(kind) == name) return kind;
  }
  return std::nullopt;
}

hdf5::Element element_of(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return hdf5::Element::kText;
    case Kind::kIntegers:
      return hdf5::Element::kInteger;
    case Kind::kReals:
    case Kind::kPieces:
      break;
  }
  return hdf5::Element::kReal;
}

template <typename Value>
std::vector<Value> read_all(const hdf5::Dataset& data) {
  std::vector<Value> values(static_cast<std::size_t>(data.size()));
  for (std::int64_t at = 0; at < data.size(); at += kReadValues) {
    data.read(at, std::min(kReadValues, data.size() - at), values.data() + at);
  }
  return values;
}

template <typename Value>
std::uint64_t hash_all(const std::vector<Value>& values) {
  return hash_of(std::span<const Value>(values), 0);
}

/// First bytes of a file: that it is there and looks like HDF5.
void check_signature(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && (errno == ENOENT || errno == ENOTDIR)) {
    throw InvalidInput(fmt::format("{}: does not exist", path.string()));
  }
  const auto fail = [&] {
    throw IoError(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  };
  if (!file.valid()) fail();
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail();
  if (!S_ISREG(status.st_mode)) {
    throw InvalidInput(fmt::format("{}: is not a regular file", path.string()));
  }
  constexpr std::array<unsigned char, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  std::array<unsigned char, 8> start{};
  const ssize_t count = ::pread(file.get(), start.data(), start.size(), 0);
  if (count < 0) fail();
  if (count == 0) throw InvalidInput(fmt::format("{}: is empty", path.string()));
  if (start != kSignature) {
    throw InvalidInput(fmt::format("{}: is not an HDF5 file, as checkpoints are", path.string()));
  }
}

/// HDF5's complaints about content as InvalidInput.
template <typename Work>
auto as_input(const Work& work) {
  try {
    return work();
  } catch (const hdf5::Error& error) {
    if (error.system()) throw;
    throw InvalidInput(fmt::format("{} (it is damaged or was not finished)", error.what()));
  }
}

class FileReader : public CheckpointReader {
 public:
  /// Throws InvalidInput, Foreign or IoError.
  explicit FileReader(const fs::path& path);

  const fs::path& path() const override { return path_; }
  const std::vector<Entry>& entries() const override { return entries_; }

  bool has(const std::string& name) const override { return find(name) != nullptr; }
  std::string text(const std::string& name) const override;
  std::vector<std::int64_t> integers(const std::string& name) const override;
  std::vector<double> reals(const std::string& name) const override;
  std::int64_t size(const std::string& name) const override;
  void read(const std::string& name, std::int64_t offset, std::span<double> values) const override;

  /// Depends on all values and names.
  std::uint64_t digest() const;
  /// Verifies this rank's share of all values.
  void verify(int rank, int ranks) const;

 private:
  struct Array {
    hdf5::Dataset data;
    std::uint64_t hash = 0;
    std::vector<std::uint64_t> block_hashes;
  };

  static hdf5::File open(const fs::path& path);
  Array load(Entry& entry, const std::string& kind) const;
  std::vector<std::uint64_t> load_block_hashes(const Entry& entry) const;
  const Entry* find(const std::string& name) const;
  std::size_t index_of(const std::string& name, Kind kind) const;
  [[noreturn]] void fail_hash(const std::string& name) const;
  void verify(std::size_t index) const;
  /// Reads whole blocks.
  void read_blocks(std::size_t index, std::int64_t offset, std::span<double> values) const;
  std::span<const double> cached_block(std::size_t index, std::int64_t block) const;

  fs::path path_;
  hdf5::File file_;
  std::vector<Entry> entries_;
  std::vector<Array> arrays_;  ///< by entry
  mutable std::size_t cached_array_ = 0;
  mutable std::int64_t cached_number_ = -1;
  mutable std::vector<double> cached_;
};

hdf5::File FileReader::open(const fs::path& path) {
  check_signature(path);
  hdf5::File file = hdf5::File::open(path.string());
  const auto version = file.text("/", "format");
  if (!version || !version->starts_with(format::kFormatPrefix)) {
    throw Foreign(fmt::format("{}: is an HDF5 file, but not a checkpoint of nestplan (format {})",
                              path.string(), version ? *version : "missing"));
  }
  if (*version != format::kFormat) {
    throw Foreign(fmt::format("{}: format: version {} of checkpoints is unknown (this is {})",
                              path.string(), version->substr(format::kFormatPrefix.size()),
                              format::kFormat));
  }
  return file;
}

FileReader::FileReader(const fs::path& path) : path_(path), file_(open(path)) {
  for (const std::string& name : file_.datasets("/state")) {
    Entry entry;
    entry.name = name;
    const auto kind = file_.text(format::state_path(name), "kind");
    arrays_.push_back(load(entry, kind.value_or("missing")));
    entries_.push_back(entry);
  }
}

FileReader::Array FileReader::load(Entry& entry, const std::string& kind) const {
  const std::string object = format::state_path(entry.name);
  const auto number = [&](const char* attribute) {
    const auto value = file_.number(object, attribute);
    if (!value) throw InvalidInput(damaged(path_, object + " has no " + attribute));
    return *value;
  };
  Array array{file_.dataset(object), 0, {}};
  const auto known = kind_of(kind);
  if (!known || array.data.element() != element_of(*known)) {
    throw InvalidInput(damaged(path_, fmt::format("{} is not of kind {}", object, kind)));
  }
  entry.kind = *known;
  entry.size = array.data.size();
  if (entry.kind == Kind::kPieces) {
    if (number("block_values") != static_cast<std::uint64_t>(kBlockValues)) {
      throw InvalidInput(damaged(path_, object + " has blocks of another size"));
    }
    array.block_hashes = load_block_hashes(entry);
    return array;
  }
  array.hash = number("hash");
  if (entry.kind == Kind::kText) {
    entry.size = static_cast<std::int64_t>(number("bytes"));
    if (std::max<std::int64_t>(entry.size, 1) != array.data.size()) {
      throw InvalidInput(damaged(path_, object + " has another length"));
    }
  }
  return array;
}

std::vector<std::uint64_t> FileReader::load_block_hashes(const Entry& entry) const {
  const std::string object = format::hashes_path(entry.name);
  const hdf5::Dataset data = file_.dataset(object);
  if (data.element() != hdf5::Element::kHash ||
      data.size() != (entry.size + kBlockValues - 1) / kBlockValues) {
    throw InvalidInput(damaged(path_, object + " does not fit"));
  }
  auto hashes = read_all<std::uint64_t>(data);
  if (file_.number(object, "hash") != hash_all(hashes)) {
    throw InvalidInput(damaged(path_, object + " differs from what was saved"));
  }
  return hashes;
}

const CheckpointReader::Entry* FileReader::find(const std::string& name) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, const std::string& n) { return entry.name < n; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

std::size_t FileReader::index_of(const std::string& name, Kind kind) const {
  const Entry* entry = find(name);
  if (entry == nullptr) {
    throw InvalidInput(fmt::format("{}: there is no {}", path_.string(), name));
  }
  if (entry->kind != kind) {
    throw InvalidInput(fmt::format("{}: {} is of kind {}, not {}", path_.string(), name,
                                   name_of(entry->kind), name_of(kind)));
  }
  return static_cast<std::size_t>(entry - entries_.data());
}

void FileReader::fail_hash(const std::string& name) const {
  throw IoError(damaged(path_, fmt::format("{} differs from what was saved", name)));
}

std::string FileReader::text(const std::string& name) const {
  const std::size_t index = index_of(name, Kind::kText);
  const Array& array = arrays_[index];
  std::string value(static_cast<std::size_t>(array.data.size()), '\0');
  array.data.read(0, 1, value.data());
  value.resize(static_cast<std::size_t>(entries_[index].size));
  if (hash_of(value) != array.hash) fail_hash(name);
  return value;
}

std::vector<std::int64_t> FileReader::integers(const std::string& name) const {
  const Array& array = arrays_[index_of(name, Kind::kIntegers)];
  auto values = read_all<std::int64_t>(array.data);
  if (hash_all(values) != array.hash) fail_hash(name);
  return values;
}

std::vector<double> FileReader::reals(const std::string& name) const {
  const Array& array = arrays_[index_of(name, Kind::kReals)];
  auto values = read_all<double>(array.data);
  if (hash_all(values) != array.hash) fail_hash(name);
  return values;
}

std::int64_t FileReader::size(const std::string& name) const {
  return entries_[index_of(name, Kind::kPieces)].size;
}

void FileReader::read_blocks(std::size_t index, std::int64_t offset,
                             std::span<double> values) const {
  const Array& array = arrays_[index];
  array.data.read(offset, static_cast<std::int64_t>(values.size()), values.data());
  while (!values.empty()) {
    const auto block =
        values.subspan(0, std::min(values.size(), static_cast<std::size_t>(kBlockValues)));
    const auto number = static_cast<std::size_t>(offset / kBlockValues);
    if (hash_of(std::span<const double>(block), offset) != array.block_hashes[number]) {
      fail_hash(entries_[index].name);
    }
    values = values.subspan(block.size());
    offset += kBlockValues;
  }
}

std::span<const double> FileReader::cached_block(std::size_t index, std::int64_t block) const {
  if (cached_array_ == index && cached_number_ == block) return cached_;
  cached_number_ = -1;
  const std::int64_t offset = block * kBlockValues;
  cached_.resize(static_cast<std::size_t>(std::min(kBlockValues, entries_[index].size - offset)));
  read_blocks(index, offset, cached_);
  cached_array_ = index;
  cached_number_ = block;
  return cached_;
}

void FileReader::read(const std::string& name, std::int64_t offset,
                      std::span<double> values) const {
  const std::size_t index = index_of(name, Kind::kPieces);
  const std::int64_t size = entries_[index].size;
  if (offset < 0 || offset > size || static_cast<std::int64_t>(values.size()) > size - offset) {
    throw InternalError(fmt::format("{}: {} values from {} on are not in the {} of {}",
                                    path_.string(), values.size(), offset, size, name));
  }
  while (!values.empty()) {
    const std::int64_t block = offset / kBlockValues;
    const std::int64_t in_block = offset % kBlockValues;
    const auto wanted = static_cast<std::int64_t>(values.size());
    std::int64_t count = 0;
    if (in_block == 0 && (wanted >= kBlockValues || offset + wanted == size)) {
      const std::int64_t whole =
          offset + wanted == size ? wanted : wanted / kBlockValues * kBlockValues;
      count = std::min(whole, kReadValues);
      read_blocks(index, offset, values.first(static_cast<std::size_t>(count)));
    } else {
      const auto cached = cached_block(index, block).subspan(static_cast<std::size_t>(in_block));
      count = std::min(wanted, static_cast<std::int64_t>(cached.size()));
      std::copy_n(cached.begin(), count, values.begin());
    }
    values = values.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

std::uint64_t FileReader::digest() const {
  std::uint64_t digest = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    digest = mix(digest ^ hash_of(entries_[i].name));
    digest = mix(digest ^ static_cast<std::uint64_t>(entries_[i].kind));
    digest = mix(digest ^ static_cast<std::uint64_t>(entries_[i].size));
    digest = mix(digest ^ arrays_[i].hash ^ hash_all(arrays_[i].block_hashes));
  }
  return digest;
}

void FileReader::verify(std::size_t index) const {
  const Entry& entry = entries_[index];
  if (entry.kind == Kind::kText) text(entry.name);
  if (entry.kind == Kind::kIntegers) integers(entry.name);
  if (entry.kind == Kind::kReals) reals(entry.name);
}

void FileReader::verify(int rank, int ranks) const {
  std::vector<double> values;
  std::int64_t task = 0;
  const auto is_mine = [&] { return task++ % ranks == rank; };
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].kind != Kind::kPieces) {
      if (is_mine()) verify(i);
      continue;
    }
    const std::int64_t size = entries_[i].size;
    for (std::int64_t at = 0; at < size; at += kReadValues) {
      if (!is_mine()) continue;
      const auto count = static_cast<std::size_t>(std::min(kReadValues, size - at));
      values.resize(count);
      read_blocks(i, at, values);
    }
  }
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  }
}

/// Why neither generation is good, as what the newest is.
[[noreturn]] void refuse_both(const std::exception_ptr& newest, const std::exception_ptr& older) {
  const std::string message = fmt::format("{} ({})", message_of(newest), message_of(older));
  try {
    std::rethrow_exception(newest);
  } catch (const InvalidInput&) {
    throw InvalidInput(message);
  } catch (const IoError&) {
    throw IoError(message);
  }
}

/// What a reader says of damage is IoError; of a file that is about to be chosen it is
/// InvalidInput.
void verify_share(const FileReader& reader, const Ranks& ranks) {
  try {
    reader.verify(ranks.rank(), ranks.size());
  } catch (const hdf5::Error&) {
    throw;
  } catch (const IoError& error) {
    throw InvalidInput(error.what());
  }
}

}  // namespace

OpenedGeneration open_generation(const fs::path& path, const Ranks& ranks) {
  OpenedGeneration result;
  std::unique_ptr<FileReader> reader;
  bool foreign = false;
  try {
    ranks.agree([&] {
      try {
        reader = as_input([&] { return std::make_unique<FileReader>(path); });
      } catch (const Foreign&) {
        foreign = true;
        throw;
      }
    });
    const bool same = ranks.all_equal(reader->digest());
    ranks.agree([&] {
      if (!same) {
        throw IoError(fmt::format("{}: is not the same file on all ranks", path.string()));
      }
      as_input([&] { verify_share(*reader, ranks); });
    });
    result.reader = std::move(reader);
  } catch (...) {
    result.error = std::current_exception();
    result.foreign = ranks.any(foreign);
  }
  return result;
}

void refuse_foreign(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || (fs::is_regular_file(status) && fs::file_size(path, error) == 0)) {
    return;
  }
  const std::string advice = "; it will not be replaced by a checkpoint";
  try {
    check_signature(path);
  } catch (const InvalidInput& other) {
    throw InvalidInput(other.what() + advice);
  }
  try {
    const FileReader reader(path);
  } catch (const Foreign& other) {
    throw InvalidInput(other.what() + advice);
  } catch (const Error&) {
    return;  // broken
  }
}

std::string_view name_of(CheckpointReader::Kind kind) {
  switch (kind) {
    case Kind::kText:
      return "text";
    case Kind::kIntegers:
      return "integers";
    case Kind::kReals:
      return "reals";
    case Kind::kPieces:
      return "pieces";
  }
  throw InternalError("unknown kind of array");
}

std::unique_ptr<CheckpointReader> open_checkpoint(
    const fs::path& path, const mpi::Comm* comm,
    const std::function<void(const std::string& warning)>& warn) {
  const Ranks ranks(comm);
  fs::path target;
  ranks.agree([&] { target = follow_links(path); });
  OpenedGeneration newest = open_generation(target, ranks);
  if (newest.reader) return std::move(newest.reader);
  if (newest.foreign) std::rethrow_exception(newest.error);
  const fs::path previous = previous_of(target);
  OpenedGeneration older = open_generation(previous, ranks);
  if (!older.reader) refuse_both(newest.error, older.error);
  warn(fmt::format("{}; going on from the generation before it, {}", message_of(newest.error),
                   previous.string()));
  return std::move(older.reader);
}

}  // namespace nestplan::io

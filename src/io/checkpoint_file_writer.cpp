#include "io/checkpoint_file_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "io/checkpoint_file_format.hpp"
#include "io/checkpoint_file_hash.hpp"
#include "io/checkpoint_file_pieces.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::io {
namespace {

/// Room for the metadata of whatever is written next.
constexpr std::int64_t kSlackBytes = std::int64_t{1} << 18;
constexpr std::int64_t kMostTextBytes = std::int64_t{1} << 30;
/// Values of one transfer of a small array.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 22;
/// Stands for the end of a state where calls are compared.
constexpr std::uint64_t kEnd = 1;

[[noreturn]] void fail_write(const std::filesystem::path& path) {
  throw IoError(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
}

bool cannot_reserve(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == ENODEV;
}

void check_numbers(const std::string& name, std::span<const double> values) {
  for (const double value : values) {
    if (std::isnan(value)) {
      throw InternalError(fmt::format("{}: NaN is no value of a checkpoint", name));
    }
  }
}

}  // namespace

TemporaryFile::TemporaryFile(std::filesystem::path path, const Ranks& ranks)
    : path_(std::move(path)), ranks_(ranks) {
  ranks_.agree([&] {
    if (ranks_.rank() != 0) return;
    ::unlink(path_.c_str());  // of a process that was killed
    const Descriptor created(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!created.valid()) fail_write(path_);
  });
  try {
    ranks_.agree([&] {
      Descriptor opened(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
      if (!opened.valid()) fail_write(path_);
      file_.emplace(std::move(opened));
    });
  } catch (...) {
    if (ranks_.rank() == 0) ::unlink(path_.c_str());
    throw;
  }
}

TemporaryFile::~TemporaryFile() {
  if (!renamed_ && ranks_.rank() == 0) ::unlink(path_.c_str());
}

void TemporaryFile::reserve(std::int64_t bytes) {
  ranks_.agree([&] {
    if (ranks_.rank() != 0 || bytes <= reserved_) return;
    int result = 0;
    do {
      result = ::fallocate(file_->get(), FALLOC_FL_KEEP_SIZE, 0, bytes + kSlackBytes);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && !cannot_reserve(errno)) fail_write(path_);
    reserved_ = bytes + kSlackBytes;
  });
}

void TemporaryFile::empty() {
  if (ranks_.rank() == 0 && ::ftruncate(file_->get(), 0) != 0) return;  // it is unlinked anyway
}

std::int64_t TemporaryFile::sync() {
  std::int64_t bytes = 0;
  ranks_.agree([&] {
    struct stat status {};
    if (::fstat(file_->get(), &status) != 0) fail_write(path_);
    bytes = status.st_size;
    if (ranks_.rank() == 0 && ::ftruncate(file_->get(), status.st_size) != 0) fail_write(path_);
    // what a node has not sent to the file system yet, only that node can flush
    if (::fsync(file_->get()) != 0) fail_write(path_);
  });
  return bytes;
}

StateWriter::StateWriter(TemporaryFile& temporary, const Ranks& ranks)
    : temporary_(temporary), ranks_(ranks) {
  temporary_.reserve(kSlackBytes);
  try {
    agree_on_hdf5([&] {
      file_.emplace(hdf5::File::create(temporary_.path().string(), ranks_.comm()));
      file_->set("/", "format", format::kFormat);
      file_->set("/", "description", format::kDescription);
      file_->set("/", "hash_function", format::kHashFunction);
      file_->create_group("/state");
      file_->create_group("/hashes");
    });
  } catch (...) {
    if (file_ && ranks_.comm() != nullptr) file_->abandon();
    throw;
  }
}

StateWriter::~StateWriter() {
  if (!out_of_step_) return;
  temporary_.empty();
  if (file_ && ranks_.comm() != nullptr) file_->abandon();
}

void StateWriter::agree(const std::function<void()>& work, std::uint64_t call) {
  if (settled_) std::rethrow_exception(settled_);
  try {
    ranks_.agree(work, call);
  } catch (...) {
    settled_ = std::current_exception();
    throw;
  }
}

void StateWriter::agree_on_hdf5(const std::function<void()>& work) {
  try {
    agree(work);
  } catch (...) {
    out_of_step_ = true;
    throw;
  }
}

void StateWriter::run(const CheckpointFile::Fill& fill) {
  try {
    fill(*this);
  } catch (...) {
    if (!settled_) ranks_.fail(std::current_exception());
    throw;
  }
  agree([] {}, kEnd);
}

void StateWriter::close() {
  agree_on_hdf5([&] {
    file_->flush();
    file_->close();
  });
}

void StateWriter::claim(const std::string& name) {
  const auto refuse = [&](const char* reason) {
    throw InternalError(fmt::format("\"{}\" cannot be saved: {}", name, reason));
  };
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = std::string_view(name).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") refuse("it is not a path of names");
    if (end == name.size()) break;
    groups_.insert(name.substr(0, end));
    begin = end + 1;
    if (names_.contains(std::string_view(name).substr(0, end))) refuse("an array is in its way");
  }
  if (name.find('\0') != std::string::npos) refuse("it is not a path of names");
  if (groups_.contains(name)) refuse("other names continue it");
  if (!names_.insert(name).second) refuse("it is there already");
}

void StateWriter::begin(Kind kind, const std::string& name, std::int64_t size) {
  std::uint64_t call = mix(static_cast<std::uint64_t>(kind) + 2);
  call = mix(call ^ static_cast<std::uint64_t>(size));
  call = mix(call ^ hash_of(name) ^ mix(name.size()));
  agree([&] { claim(name); }, call);
}

hdf5::Dataset StateWriter::create(const std::string& path, hdf5::Element element,
                                  std::int64_t size) {
  std::optional<hdf5::Dataset> dataset;
  std::int64_t bytes = 0;
  agree_on_hdf5([&] {
    dataset.emplace(file_->create(path, element, size));
    bytes = dataset->end_in_file();
  });
  try {
    temporary_.reserve(bytes);
  } catch (...) {
    settled_ = std::current_exception();
    throw;
  }
  return std::move(*dataset);
}

template <typename Value>
void StateWriter::transfer(hdf5::Dataset& dataset, std::span<const Value> values) {
  const bool mine = ranks_.rank() == 0;
  for (std::size_t at = 0; at < values.size(); at += kMostAtOnce) {
    const auto count = static_cast<std::int64_t>(std::min(kMostAtOnce, values.size() - at));
    agree_on_hdf5([&] {
      dataset.write(static_cast<std::int64_t>(at), mine ? count : 0, values.data() + at);
    });
  }
}

template <typename Value>
void StateWriter::small(const std::string& path, hdf5::Element element, std::string_view kind,
                        std::span<const Value> values) {
  const std::uint64_t hash = ranks_.broadcast(hash_of(values, 0));
  hdf5::Dataset dataset = create(path, element, static_cast<std::int64_t>(values.size()));
  agree_on_hdf5([&] {
    file_->set(path, "kind", kind);
    file_->set(path, "hash", hash);
  });
  transfer(dataset, values);
}

void StateWriter::text(const std::string& name, std::string_view value) {
  begin(Kind::kText, name, 0);
  const auto size = static_cast<std::int64_t>(ranks_.broadcast(std::uint64_t{value.size()}));
  const std::uint64_t hash = ranks_.broadcast(hash_of(value));
  agree([&] {
    if (size > kMostTextBytes) {
      throw InternalError(fmt::format("{}: a text of {} bytes is too long", name, size));
    }
  });
  const std::string path = format::state_path(name);
  hdf5::Dataset dataset = create(path, hdf5::Element::kText, std::max<std::int64_t>(size, 1));
  agree_on_hdf5([&] {
    file_->set(path, "kind", name_of(Kind::kText));
    file_->set(path, "bytes", static_cast<std::uint64_t>(size));
    file_->set(path, "hash", hash);
    const bool mine = ranks_.rank() == 0;
    dataset.write(0, mine ? 1 : 0, size == 0 ? "" : value.data());
  });
}

void StateWriter::integers(const std::string& name, std::span<const std::int64_t> values) {
  begin(Kind::kIntegers, name, static_cast<std::int64_t>(values.size()));
  small(format::state_path(name), hdf5::Element::kInteger, name_of(Kind::kIntegers), values);
}

void StateWriter::reals(const std::string& name, std::span<const double> values) {
  begin(Kind::kReals, name, static_cast<std::int64_t>(values.size()));
  agree([&] { check_numbers(name, values); });
  small(format::state_path(name), hdf5::Element::kReal, name_of(Kind::kReals), values);
}

void StateWriter::pieces(const std::string& name, std::int64_t size,
                         std::span<const solver::Piece> mine) {
  begin(Kind::kPieces, name, size);
  std::optional<PieceRounds> rounds;
  agree([&] {
    if (size < 0) throw InternalError(fmt::format("{}: {} is no size", name, size));
    rounds.emplace(name, size, mine, ranks_);
  });
  const std::string path = format::state_path(name);
  const std::string hashes_path = format::hashes_path(name);
  hdf5::Dataset dataset = create(path, hdf5::Element::kReal, size);
  agree_on_hdf5([&] {
    file_->set(path, "kind", name_of(Kind::kPieces));
    file_->set(path, "block_values", static_cast<std::uint64_t>(kBlockValues));
    file_->set(path, "block_hashes", hashes_path);
  });

  std::vector<std::uint64_t> hashes(
      static_cast<std::size_t>((size + kBlockValues - 1) / kBlockValues));
  for (std::int64_t round = 0; round < rounds->rounds(); ++round) {
    PieceRounds::Chunk chunk;
    try {
      chunk = rounds->gather(round);
    } catch (...) {
      settled_ = std::current_exception();
      throw;
    }
    const auto count = static_cast<std::int64_t>(chunk.values.size());
    for (std::int64_t at = 0; at < count; at += kBlockValues) {
      const auto block =
          chunk.values.subspan(static_cast<std::size_t>(at),
                               static_cast<std::size_t>(std::min(kBlockValues, count - at)));
      hashes[static_cast<std::size_t>((chunk.offset + at) / kBlockValues)] =
          hash_of(block, chunk.offset + at);
    }
    agree_on_hdf5([&] { dataset.write(chunk.offset, count, chunk.values.data()); });
  }
  ranks_.sum(hashes);
  small(hashes_path, hdf5::Element::kHash, "hashes", std::span<const std::uint64_t>(hashes));
}

}  // namespace nestplan::io

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/util/errors.hpp"

namespace nestplan::mpi {
class Comm;
}  // namespace nestplan::mpi

/// As much of HDF5 as a checkpoint needs. Nothing is ever printed.
namespace nestplan::io::hdf5 {

/// HDF5 failed: "file: what: HDF5's reason" on one line.
class Error : public IoError {
 public:
  Error(const std::string& message, bool system) : IoError(message), system_(system) {}
  /// Whether the operating system or MPI refused, rather than the content of the file.
  bool system() const { return system_; }

 private:
  bool system_;
};

/// Owns an HDF5 identifier (an `hid_t`).
class Handle {
 public:
  using Close = int (*)(std::int64_t);

  Handle() = default;
  Handle(std::int64_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle() { reset(); }

  std::int64_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  /// Whether closing succeeded.
  bool reset();
  /// Leaves it open for good.
  void abandon() { id_ = -1; }

 private:
  std::int64_t id_ = -1;
  Close close_ = nullptr;
};

enum class Element { kText, kInteger, kReal, kHash };

/// A one-dimensional array without chunks or filters; text is one string.
class Dataset {
 public:
  Dataset(std::string file, std::string name, Handle id, Handle text_type, Element element,
          std::int64_t size, bool collective);

  /// Number of elements; of text: its bytes, at least one.
  std::int64_t size() const { return size_; }
  Element element() const { return element_; }
  /// Bytes of the file up to the end of this array; 0 if it is empty.
  std::int64_t end_in_file() const;

  /// `count` elements from `offset` on; text as a whole. In a file with several writers all take
  /// part, with a count of 0 if they have nothing to write, and InternalError tells that HDF5 did
  /// not write collectively. *Collective.*
  void write(std::int64_t offset, std::int64_t count, const void* values);
  void read(std::int64_t offset, std::int64_t count, void* values) const;

 private:
  std::int64_t memory_type() const;

  std::string file_;
  std::string name_;
  Handle id_;
  Handle text_type_;
  Element element_;
  std::int64_t size_;
  bool collective_;
};

/// An open file. All calls on one that was created are collective over its ranks.
class File {
 public:
  /// Replaces what is at `path`. Without `comm` by this process alone, and without MPI.
  static File create(const std::string& path, const mpi::Comm* comm);
  /// Read-only, by this process alone.
  static File open(const std::string& path);

  void create_group(const std::string& name);
  /// With the groups on its way. `size` of text is in bytes and at least 1.
  Dataset create(const std::string& name, Element element, std::int64_t size);
  Dataset dataset(const std::string& name) const;
  /// All datasets below `group`, named from there, sorted.
  std::vector<std::string> datasets(const std::string& group) const;

  void set(const std::string& object, const std::string& attribute, std::string_view value);
  void set(const std::string& object, const std::string& attribute, std::uint64_t value);
  /// Nothing if there is no such attribute, or one of another type.
  std::optional<std::string> text(const std::string& object, const std::string& attribute) const;
  std::optional<std::uint64_t> number(const std::string& object,
                                      const std::string& attribute) const;

  void flush();
  void close();
  /// Never touches the file again, nor waits for other ranks. What HDF5 holds for it is lost.
  void abandon() { id_.abandon(); }

 private:
  File(std::string path, Handle id, bool collective);

  std::string path_;
  Handle id_;
  bool collective_;
};

}  // namespace nestplan::io::hdf5

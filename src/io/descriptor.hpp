#pragma once

#include <unistd.h>

#include <utility>

namespace nestplan::io {

/// Owns a POSIX file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  bool valid() const { return value_ >= 0; }
  int get() const { return value_; }

  /// Closes and returns what `close` said: 0, or -1 with `errno`.
  int reset() { return value_ < 0 ? 0 : ::close(std::exchange(value_, -1)); }

 private:
  int value_;
};

}  // namespace nestplan::io

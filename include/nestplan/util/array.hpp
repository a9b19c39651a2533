#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace nestplan::util {

/// A read-only array. Copies share its memory.
template <typename T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() = default;
  Array(std::vector<T> values) {  // NOLINT(google-explicit-constructor): a vector is an array
    auto owned = std::make_shared<const std::vector<T>>(std::move(values));
    values_ = *owned;
    owner_ = std::move(owned);
  }
  Array(std::shared_ptr<const void> owner, std::span<const T> values)
      : owner_(std::move(owner)), values_(values) {}

  const T& operator[](std::size_t i) const { return values_[i]; }
  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  const T* data() const { return values_.data(); }
  const T& back() const { return values_.back(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  operator std::span<const T>() const { return values_; }  // NOLINT(google-explicit-constructor)

 private:
  std::shared_ptr<const void> owner_;
  std::span<const T> values_;
};

/// Where large read-only arrays lie: in this process, or in memory that several processes share and
/// one of them fills. *Every call is collective over these processes.*
class Storage {
 public:
  virtual ~Storage() = default;

  /// Whether this process fills the arrays.
  virtual bool fills() const { return true; }

  /// The value of the process that fills, for all of them.
  virtual std::int64_t agree(std::int64_t value) { return value; }

  /// After it, everybody may read what was filled before it.
  virtual void publish() {}

  /// An array of `size` items, zero unless `fill` (given a std::span of them) sets them. To be read
  /// after publish().
  template <typename T, typename Fill>
  Array<T> make(std::int64_t size, Fill&& fill) {
    const auto count = static_cast<std::size_t>(size);
    if (count == 0) return {};
    const std::shared_ptr<std::byte[]> memory = allocate(count * sizeof(T));
    bytes_ += static_cast<double>(count * sizeof(T));
    const std::span<T> values(reinterpret_cast<T*>(memory.get()), count);
    if (fills()) std::forward<Fill>(fill)(values);
    return Array<T>(memory, values);
  }

  /// The array of the process that fills, for all of them.
  template <typename T>
  Array<T> share(const Array<T>& mine) {
    return make<T>(agree(static_cast<std::int64_t>(mine.size())), [&](std::span<T> values) {
      std::copy(mine.begin(), mine.end(), values.begin());
    });
  }

  /// Of all arrays together; a process's part of them where they are shared.
  double bytes_per_process() const { return bytes_ / processes(); }

 protected:
  /// Zeroed, aligned for any item.
  virtual std::shared_ptr<std::byte[]> allocate(std::size_t bytes) = 0;
  virtual int processes() const { return 1; }

 private:
  double bytes_ = 0;
};

/// In this process.
class LocalStorage final : public Storage {
 protected:
  std::shared_ptr<std::byte[]> allocate(std::size_t bytes) override {
    return std::make_shared<std::byte[]>(bytes);
  }
};

}  // namespace nestplan::util

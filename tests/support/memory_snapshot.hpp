#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nestplan/solver/snapshot.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::testing {

/// A saved state in memory. Written by one rank, or by several whose parts are put together by
/// `merge`.
class MemorySnapshot final : public solver::SnapshotReader, public solver::SnapshotWriter {
 public:
  void text(const std::string& name, std::string_view value) override {
    add(texts_, name, std::string(value));
  }
  void integers(const std::string& name, std::span<const std::int64_t> values) override {
    add(integers_, name, {values.begin(), values.end()});
  }
  void reals(const std::string& name, std::span<const double> values) override {
    add(reals_, name, {values.begin(), values.end()});
  }
  void pieces(const std::string& name, std::int64_t size,
              std::span<const solver::Piece> mine) override {
    std::vector<double> all(static_cast<std::size_t>(size), kMissing);
    for (const solver::Piece& piece : mine) {
      if (piece.offset < 0 ||
          piece.offset + static_cast<std::int64_t>(piece.values.size()) > size) {
        throw std::logic_error(name + ": a piece is outside of its array");
      }
      std::copy(piece.values.begin(), piece.values.end(), all.begin() + piece.offset);
    }
    add(pieces_, name, std::move(all));
  }

  bool has(const std::string& name) const override {
    return texts_.contains(name) || integers_.contains(name) || reals_.contains(name) ||
           pieces_.contains(name);
  }
  std::string text(const std::string& name) const override { return get(texts_, name); }
  std::vector<std::int64_t> integers(const std::string& name) const override {
    return get(integers_, name);
  }
  std::vector<double> reals(const std::string& name) const override { return get(reals_, name); }
  std::int64_t size(const std::string& name) const override {
    return static_cast<std::int64_t>(get(pieces_, name).size());
  }
  void read(const std::string& name, std::int64_t offset, std::span<double> values) const override {
    const std::vector<double>& all = get(pieces_, name);
    if (static_cast<std::size_t>(offset) + values.size() > all.size()) {
      throw std::logic_error(name + ": read beyond its end");
    }
    std::copy_n(all.begin() + offset, values.size(), values.begin());
  }

  /// Partitioned arrays by name; where no rank had a piece there is NaN.
  std::map<std::string, std::vector<double>>& partitioned() { return pieces_; }
  const std::map<std::string, std::vector<double>>& partitioned() const { return pieces_; }

  /// Takes over the pieces that `other`, the same state on another rank, has.
  void merge(const MemorySnapshot& other) {
    if (integers_ != other.integers_ || pieces_.size() != other.pieces_.size()) {
      throw std::logic_error("ranks save different states");
    }
    for (auto& [name, values] : pieces_) {
      const std::vector<double>& theirs = other.pieces_.at(name);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(theirs.at(i))) continue;
        if (!std::isnan(values[i])) throw std::logic_error(name + ": a value is there twice");
        values[i] = theirs[i];
      }
    }
  }

  /// As a message, and back.
  std::string pack() const {
    std::string bytes;
    pack(bytes, texts_);
    pack(bytes, integers_);
    pack(bytes, reals_);
    pack(bytes, pieces_);
    return bytes;
  }
  static MemorySnapshot unpack(const std::string& bytes) {
    MemorySnapshot state;
    const char* next = bytes.data();
    unpack(next, state.texts_);
    unpack(next, state.integers_);
    unpack(next, state.reals_);
    unpack(next, state.pieces_);
    return state;
  }

  /// Throws if a value of a partitioned array is missing.
  void check_whole() const {
    for (const auto& [name, values] : pieces_) {
      for (const double value : values) {
        if (std::isnan(value)) throw std::logic_error(name + ": a value is missing");
      }
    }
  }

 private:
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

  /// A string or vector: its size and its values.
  template <typename Values>
  static void put(std::string& bytes, const Values& values) {
    const std::size_t size = values.size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes.append(reinterpret_cast<const char*>(values.data()),
                 size * sizeof(typename Values::value_type));
  }
  template <typename Values>
  static void take(const char*& next, Values& values) {
    std::size_t size = 0;
    std::memcpy(&size, next, sizeof size);
    next += sizeof size;
    values.resize(size);
    if (size > 0) std::memcpy(values.data(), next, size * sizeof(typename Values::value_type));
    next += size * sizeof(typename Values::value_type);
  }
  template <typename Value>
  static void pack(std::string& bytes, const std::map<std::string, Value>& entries) {
    put(bytes, std::string(entries.size(), '.'));
    for (const auto& [name, values] : entries) {
      put(bytes, name);
      put(bytes, values);
    }
  }
  template <typename Value>
  static void unpack(const char*& next, std::map<std::string, Value>& entries) {
    std::string dots;
    take(next, dots);
    for (std::size_t i = 0; i < dots.size(); ++i) {
      std::string name;
      take(next, name);
      take(next, entries[name]);
    }
  }

  template <typename Value>
  void add(std::map<std::string, Value>& to, const std::string& name, Value value) {
    if (has(name)) throw std::logic_error(name + " is written twice");
    to.emplace(name, std::move(value));
  }
  template <typename Value>
  static const Value& get(const std::map<std::string, Value>& from, const std::string& name) {
    const auto found = from.find(name);
    if (found == from.end()) throw InvalidInput(name + " is not there");
    return found->second;
  }

  std::map<std::string, std::string> texts_;
  std::map<std::string, std::vector<std::int64_t>> integers_;
  std::map<std::string, std::vector<double>> reals_;
  std::map<std::string, std::vector<double>> pieces_;
};

}  // namespace nestplan::testing

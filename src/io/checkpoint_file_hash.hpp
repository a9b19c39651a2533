#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace nestplan::io {

/// Values that share a hash in a partitioned array.
inline constexpr std::int64_t kBlockValues = std::int64_t{1} << 15;

/// The finaliser of SplitMix64, a bijection (see checkpoint.hpp).
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Hash of values of which the first has index `first` in its array; the sum of the hashes of parts
/// is the hash of the whole.
template <typename Value>
std::uint64_t hash_of(std::span<const Value> values, std::int64_t first) {
  static_assert(sizeof(Value) == sizeof(std::uint64_t));
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
  std::uint64_t step = (static_cast<std::uint64_t>(first) + 1) * kStep;
  std::uint64_t sum = 0;
  for (const Value value : values) {
    sum += mix(std::bit_cast<std::uint64_t>(value) + step);
    step += kStep;
  }
  return sum;
}

/// Hash of a text as little-endian words of 8 bytes, padded by zeros.
inline std::uint64_t hash_of(std::string_view text) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < sizeof word && at + i < text.size(); ++i) {
      word |= std::uint64_t{static_cast<unsigned char>(text[at + i])} << (8 * i);
    }
    sum += hash_of(std::span<const std::uint64_t>(&word, 1), static_cast<std::int64_t>(at / 8));
  }
  return sum;
}

}  // namespace nestplan::io

#include <fmt/format.h>

#include <algorithm>

#include "nestplan/network/torus.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::network {
namespace {

using util::idx;

std::int64_t least_prime_factor(std::int64_t n) {
  for (std::int64_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) return p;
  }
  return n;
}

std::string text_of(std::span<const std::int64_t> box) {
  return fmt::format("{}", fmt::join(box, "x"));
}

void check_divides(const char* what, std::span<const std::int64_t> box, const char* whole,
                   std::span<const std::int64_t> of) {
  bool divides = box.size() == of.size();
  for (std::size_t d = 0; divides && d < of.size(); ++d) {
    divides = box[d] >= 1 && of[d] % box[d] == 0;
  }
  if (!divides) {
    throw InvalidInput(fmt::format("network.{}: {} does not divide the {} of {}", what,
                                   text_of(box), whole, text_of(of)));
  }
}

}  // namespace

TorusGrid::TorusGrid(const model::TorusSpec& spec) : cube_(spec.cube) {
  if (spec.dimensions.empty() || spec.dimensions.size() > kMostTorusDimensions) {
    throw InvalidInput(fmt::format("network.dimensions: there must be 1 to {}, not {}",
                                   kMostTorusDimensions, spec.dimensions.size()));
  }
  for (const model::TorusDimension& dimension : spec.dimensions) {
    if (dimension.size < 1 || dimension.size > kMostTorusPlaces / places_) {
      throw InvalidInput(
          fmt::format("network.dimensions: sizes must be at least 1 and make at "
                      "most {} devices",
                      kMostTorusPlaces));
    }
    if (has_slices_) throw InvalidInput("network.dimensions: slices must be the last of them");
    has_slices_ = dimension.switched;
    size_.push_back(dimension.size);
    wrap_.push_back(dimension.wrap ? 1 : 0);
    places_ *= dimension.size;
  }
  block_.push_back(1);
  extent_.emplace_back(size_.size(), 1);
  for (const std::int64_t size : size_) place_of_.emplace_back(idx(size), 0);
  if (!spec.host.empty()) {
    check_divides("host", spec.host, cube_.empty() ? "whole" : "cube",
                  cube_.empty() ? size_ : cube_);
    grow_to(spec.host);
  }
  if (!cube_.empty()) {
    check_divides("cube", cube_, "whole", size_);
    grow_to(cube_);
  }
  std::vector<std::int64_t> slice = size_;
  if (has_slices_) slice.back() = 1;
  grow_to(slice);
  grow_to(size_);
  coordinate_.resize(idx(places_) * size_.size());
  std::vector<std::int64_t> c(size_.size(), 0);
  for (std::int64_t i = 0; i < places_; ++i) {
    const std::size_t row = idx(place(c)) * size_.size();
    std::copy(c.begin(), c.end(), coordinate_.begin() + static_cast<std::ptrdiff_t>(row));
    for (std::size_t d = 0; d < c.size() && ++c[d] == size_[d]; ++d) c[d] = 0;
  }
}

void TorusGrid::grow_to(std::span<const std::int64_t> target) {
  const std::size_t none = size_.size();
  std::size_t last = none;
  while (true) {
    std::vector<std::int64_t> extent = extent_.back();
    std::size_t widened = none;
    std::int64_t radix = 0;
    for (std::size_t d = 0; d < extent.size(); ++d) {
      if (extent[d] == target[d]) continue;
      const std::int64_t prime = least_prime_factor(target[d] / extent[d]);
      if (widened == none || prime < radix || (prime == radix && extent[d] < extent[widened])) {
        widened = d;
        radix = prime;
      }
    }
    if (widened == none) return;
    const std::int64_t block = block_.back();
    std::vector<std::int64_t>& number = place_of_[widened];
    for (std::size_t c = 0; c < number.size(); ++c) {
      number[c] += static_cast<std::int64_t>(c) / extent[widened] % radix * block;
    }
    if (widened != last) run_.push_back({block, 1});
    run_.back().count *= radix;
    last = widened;
    extent[widened] *= radix;
    block_.push_back(block * radix);
    extent_.push_back(std::move(extent));
  }
}

std::vector<std::int64_t> TorusGrid::coordinates(std::int64_t place) const {
  std::vector<std::int64_t> result;
  for (std::size_t d = 0; d < dimensions(); ++d) result.push_back(coordinate(place, d));
  return result;
}

std::int64_t TorusGrid::place(std::span<const std::int64_t> coordinates) const {
  std::int64_t number = 0;
  for (std::size_t d = 0; d < dimensions(); ++d) number += place_of_[d][idx(coordinates[d])];
  return number;
}

std::optional<TorusBox> TorusGrid::box(std::span<const std::int64_t> members) const {
  TorusBox result(dimensions());
  std::int64_t count = 1;
  std::vector<char> seen;
  for (std::size_t d = 0; d < dimensions(); ++d) {
    seen.assign(idx(size_[d]), 0);
    std::int64_t first = size_[d], last = 0, distinct = 0;
    for (const std::int64_t member : members) {
      const std::int64_t c = coordinate(member, d);
      distinct += seen[idx(c)] == 0;
      seen[idx(c)] = 1;
      first = std::min(first, c);
      last = std::max(last, c);
    }
    count *= distinct;
    if (count > std::ssize(members)) return std::nullopt;
    TorusRow& row = result[d];
    row.first = first;
    row.members = distinct;
    if (distinct == 1) continue;
    if ((last - first) % (distinct - 1) != 0) return std::nullopt;
    row.stride = (last - first) / (distinct - 1);
    for (std::int64_t c = first; c <= last; c += row.stride) {
      if (seen[idx(c)] == 0) return std::nullopt;
    }
  }
  if (count != std::ssize(members)) return std::nullopt;
  close_rows(result);
  return result;
}

void TorusGrid::close_rows(TorusBox& box) const {
  bool cubes = !cube_.empty();
  for (std::size_t d = 0; cubes && d < box.size(); ++d) {
    const auto& [first, members, stride, closed] = box[d];
    const std::int64_t extent = members * stride;
    cubes = extent % cube_[d] == 0 && first % cube_[d] < stride;
  }
  for (std::size_t d = 0; d < box.size(); ++d) {
    TorusRow& row = box[d];
    const bool round = wrap_[d] != 0 && row.members * row.stride == size_[d];
    row.closed = row.members > 1 && (round || cubes || is_switched(d));
  }
}

}  // namespace nestplan::network

#include "importers/causal_mask.hpp"

namespace nestplan::importers {

bool is_square(std::span<const std::int64_t> dims) {
  return dims.size() >= 2 && dims[dims.size() - 1] == dims[dims.size() - 2] && dims.back() > 1;
}

bool is_triangle(std::span<const std::int64_t> dims, std::string_view data, std::size_t width) {
  constexpr std::int64_t kMost = std::int64_t{1} << 28;  // squares of what is larger overflow
  if (!is_square(dims) || dims.back() > kMost || width == 0) return false;
  const auto size = static_cast<std::size_t>(dims.back());
  const std::size_t bytes = size * size * width;
  if (data.size() < bytes || data.size() % bytes != 0) return false;
  const std::string_view below = data.substr(0, width);
  const std::string_view above = data.substr(width, width);
  if (below == above) return false;
  for (std::size_t at = 0; at < data.size(); at += width) {
    const std::size_t item = at / width;
    const bool upper = item % size > item / size % size;
    if (data.substr(at, width) != (upper ? above : below)) return false;
  }
  return true;
}

}  // namespace nestplan::importers

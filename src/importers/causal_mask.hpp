#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nestplan::importers {

/// Whether the last two axes are as long as each other, and longer than 1: as those of the mask of
/// a sequence over itself.
bool is_square(std::span<const std::int64_t> dims);

/// Whether the matrices of a tensor of the shape `dims`, whose items are `width` bytes each, are
/// masks of causal attention: square, with one value in the lower triangle and another one above
/// the diagonal. Not where the data are missing.
bool is_triangle(std::span<const std::int64_t> dims, std::string_view data, std::size_t width);

}  // namespace nestplan::importers

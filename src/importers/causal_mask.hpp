#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nestplan::importers {

/// Whether the matrices of a tensor of the shape `dims`, whose items are `width` bytes each, are
/// masks of causal attention: square, with one value in the lower triangle and another one above
/// the diagonal. Not for tensors whose data are elsewhere.
bool is_triangle(std::span<const std::int64_t> dims, std::string_view data, std::size_t width);

}  // namespace nestplan::importers

#pragma once

#include <cstddef>
#include <cstdint>

namespace nestplan::util {

/// A position or count, signed everywhere here, as containers of the standard library take it.
inline std::size_t idx(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace nestplan::util

#pragma once

#include <span>
#include <string_view>

#include "nestplan/model/overlap.hpp"

namespace nestplan::targets {

/// A kind of communication that a framework hides as it is usually run.
struct HiddenByDefault {
  double model::Overlap::*share;
  double value;
  const char* setting;  ///< what makes it so
  const char* source;
};

/// What a framework hides; nothing for kAny, nor for a name that is unknown. Upper bounds: that a
/// collective is issued beside computation does not mean that none of it shows.
std::span<const HiddenByDefault> hidden_by_default(std::string_view target);

/// The same as shares; those that are not listed are 0.
model::Overlap default_overlap(std::string_view target);

}  // namespace nestplan::targets

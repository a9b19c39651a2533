#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "nestplan/model/overlap.hpp"

namespace nestplan::cli {

/// What runs beside computation: as the target is usually run, changed by the words of `--overlap`
/// in their order, without transfers between stages where `--no-transfer-overlap` says so. Throws
/// InvalidConfig.
model::Overlap overlap_of(const Flags& flags);

/// The same as words of `--overlap`, whatever the target.
std::vector<std::string> overlap_words(const model::Overlap& overlap);

/// "sync 1, context 0.5"; "none".
std::string overlap_text(const model::Overlap& overlap);

}  // namespace nestplan::cli

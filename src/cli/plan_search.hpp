#pragma once

#include <limits>
#include <optional>

#include "cli/flags.hpp"
#include "cli/inputs.hpp"
#include "cli/ranks.hpp"
#include "cli/search_file.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// How far one search goes.
struct SearchEnd {
  double time_limit_s = std::numeric_limits<double>::infinity();
  bool any_plan = false;  ///< the first plan that fits is as good as the best
};

/// `--time-limit`.
SearchEnd end_of(const Flags& flags);

/// Searches on all ranks, which have `setup.problem` and its network. The plan on the first rank,
/// nothing on the others. Goes on from `file` and saves there, if there is one. *Collective.*
std::optional<model::Plan> search(const Flags& flags, const Setup& setup, const Ranks& ranks,
                                  SearchFile* file, const SearchEnd& end);

}  // namespace nestplan::cli

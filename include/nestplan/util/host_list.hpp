#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nestplan::util {

/// Lists of host names as Slurm writes them: names separated by commas or blanks, with brackets for
/// numbers and ranges of numbers, "node[001-128,140],login1". A number is as wide as the first of
/// its range is written, so [8-11] is 8, 9, 10, 11 and [08-11] is 08, 09, 10, 11. Several brackets
/// in a name stand for all combinations, the last bracket changing fastest. Empty entries are
/// skipped; text behind the last bracket is part of the name.
/// Source: slurm.schedmd.com, scontrol(1) "show hostnames", and what Slurm 22.05 does.

/// Most names that a list may stand for.
inline constexpr std::int64_t kMostHostNames = std::int64_t{1} << 20;

/// The names in the order of the list, duplicates included. Throws InvalidInput that names the
/// position (from 1) of what is wrong, and for more than kMostHostNames names.
std::vector<std::string> expand_hosts(std::string_view list);

/// The list that `expand_hosts` and Slurm turn back into `names`, in their order: ranges as long as
/// the order allows, and one more bracket where names differ in a second number as well. Throws
/// InvalidInput for a name that such a list cannot hold (empty, or with commas, blanks, brackets).
std::string compress_hosts(std::span<const std::string> names);

}  // namespace nestplan::util

#pragma once

#include <string>
#include <string_view>

namespace nestplan::io::format {

/// The names of nestplan/io/checkpoint.hpp.
inline constexpr std::string_view kFormatPrefix = "nestplan.checkpoint/";
inline constexpr std::string_view kFormat = "nestplan.checkpoint/1";
inline constexpr std::string_view kDescription =
    "State of a search of nestplan. Arrays are in /state; times are in seconds, sizes in bytes.";
inline constexpr std::string_view kHashFunction =
    "sum over i of mix(bits[i] + (index(i) + 1) * 0x9e3779b97f4a7c15) mod 2^64, "
    "mix: the finaliser of SplitMix64";

inline std::string state_path(const std::string& name) { return "/state/" + name; }
inline std::string hashes_path(const std::string& name) { return "/hashes/" + name; }

}  // namespace nestplan::io::format

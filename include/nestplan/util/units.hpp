#pragma once

#include <string_view>

namespace nestplan::util {

/// Strings with a unit, as people write them in files: a decimal number, optional blanks, a unit.
///
/// Prefixes are decimal (k M G T P E) or, for bytes and bits, also binary (Ki Mi Gi Ti Pi Ei);
/// `B` is a byte and `b` a bit; times are s, ms, us, ns. Upper and lower case matter. Results are
/// finite and not negative.
///
/// All throw InvalidInput for a missing or unknown unit, one of another dimension, a negative or
/// non-finite number; the message says what was expected and gives an example near to what was
/// written: `"450 GBps" is not a bandwidth (did you mean "450 GB/s"?)`.

double parse_bytes(std::string_view text);      ///< "80 GiB" → bytes
double parse_bandwidth(std::string_view text);  ///< "400 Gb/s" → bytes/s
double parse_seconds(std::string_view text);    ///< "2.5 us" → seconds
double parse_flops(std::string_view text);      ///< "989 TFLOP/s" → FLOP/s

}  // namespace nestplan::util

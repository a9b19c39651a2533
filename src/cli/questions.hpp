#pragma once

#include "cli/flags.hpp"
#include "cli/inquiry.hpp"
#include "cli/ranks.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

/// Whether the flags ask more than for one plan: `--fewest-devices`, `--device-counts`,
/// `--what-if`, `--top`.
bool asks_question(const Flags& flags);

/// Throws InvalidConfig for questions that do not go together or with other flags.
void check_question(const Flags& flags);

/// Searches as often as the question needs, and prints the answer. *Collective.*
ExitCode answer(const Flags& flags, const Ranks& ranks);

/// The plan, and what it would take were something else allowed or there. *Collective.*
ExitCode answer_what_if(const Flags& flags, const Inquiry& inquiry);

/// The plan, and the next best ones of other strategies. *Collective.*
ExitCode answer_top(const Flags& flags, const Inquiry& inquiry);

}  // namespace nestplan::cli

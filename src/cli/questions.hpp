#pragma once

#include "cli/flags.hpp"
#include "cli/inquiry.hpp"
#include "cli/ranks.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

/// Whether the flags ask more than for one plan: `--fewest-devices`, `--device-counts`,
/// `--what-if`, `--top`, `--explain`, `--pareto`.
bool asks_question(const Flags& flags);

/// Throws InvalidConfig for questions that do not go together or with other flags.
void check_question(const Flags& flags);

/// Throws InvalidConfig for `--device-counts` that the cluster does not have.
void check_device_counts(const Flags& flags, const model::Cluster& cluster);

/// Searches as often as the question needs, and prints the answer. *Collective.*
ExitCode answer(const Flags& flags, const Ranks& ranks);

/// The plan, and what it would take were something else allowed or there. *Collective.*
ExitCode answer_what_if(const Flags& flags, const Inquiry& inquiry);

/// The plan, the next best ones of other strategies, and how far costs may be off. *Collective.*
ExitCode answer_top(const Flags& flags, const Inquiry& inquiry);

/// The plan, what each of its neighbours loses, and how far costs may be off. *Collective.*
ExitCode answer_explain(const Flags& flags, const Inquiry& inquiry);

/// What time, memory and devices can be traded for each other. *Collective.*
ExitCode answer_pareto(const Flags& flags, const Inquiry& inquiry);

}  // namespace nestplan::cli

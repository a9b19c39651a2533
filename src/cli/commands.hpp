#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

class Ranks;

ExitCode run_plan(const Flags& flags, const Ranks& ranks);
ExitCode run_resume(const Flags& flags, const std::string& checkpoint, const Ranks& ranks);
ExitCode run_evaluate(const Flags& flags, const std::string& plan_file);
ExitCode run_simulate(const Flags& flags, const std::string& plan_file);
ExitCode run_report(const Flags& flags, const std::string& file);
ExitCode run_export(const Flags& flags, const std::string& plan_file);
ExitCode run_calibrate(const Flags& flags);
ExitCode run_compare(const Flags& flags, const Ranks& ranks);
ExitCode run_import(const Flags& flags, const std::string& file);
ExitCode run_batch(const Flags& flags, const std::string& batch_file, const Ranks& ranks);
ExitCode run_inspect(const Flags& flags, const std::vector<std::string>& files);

}  // namespace nestplan::cli

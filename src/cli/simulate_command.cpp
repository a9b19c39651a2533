#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/judged_plan.hpp"
#include "cli/outputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_report.hpp"
#include "cli/simulate_report.hpp"
#include "nestplan/simulate/trace.hpp"

namespace nestplan::cli {
namespace {

/// The file of `--trace`, which is written as the simulation goes on.
class TraceFile {
 public:
  /// Throws IoError if it cannot be written.
  explicit TraceFile(const std::string& path) : path_(path), out_(path) { check(); }

  void write(const simulate::Pipeline& pipeline, const simulate::Simulation& simulation) {
    simulate::write_trace(pipeline, simulation, out_);
    out_.close();
    check();
  }

 private:
  void check() {
    if (!out_) {
      throw IoError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
    }
  }

  std::string path_;
  std::ofstream out_;
};

ExitCode refuse(const model::Plan& plan, bool json) {
  print_result(json ? infeasible_simulation_json(plan)
                    : labelled_paragraph("infeasible", plan.reason));
  return ExitCode::kInfeasible;
}

}  // namespace

ExitCode run_simulate(const Flags& flags, const std::string& plan_file) {
  std::vector<NamedFile> inputs = input_names(flags);
  inputs.push_back({"the plan", plan_file});
  refuse_shared_outputs({{"--trace", flags.trace}}, inputs);
  const auto [setup, plan] = judge_plan(flags, plan_file);
  if (plan.status == model::Status::kInfeasible) return refuse(plan, flags.json);
  const bool trace_alone = is_standard_output(flags.trace);
  std::optional<TraceFile> file;
  if (!flags.trace.empty() && !trace_alone) file.emplace(flags.trace);

  const simulate::Pipeline pipeline = simulate::build_pipeline(setup.problem, *setup.network, plan);
  const simulate::Simulation simulation = simulate::simulate(pipeline, *setup.network, plan);
  if (file) file->write(pipeline, simulation);
  if (trace_alone) {
    std::ostringstream text;
    simulate::write_trace(pipeline, simulation, text);
    print_result(text.str());
  } else if (flags.json) {
    print_result(simulation_json(pipeline, simulation, plan));
  } else {
    print_result(simulation_report(pipeline, simulation, plan, setup, flags.verbose));
  }
  return ExitCode::kDone;
}

}  // namespace nestplan::cli

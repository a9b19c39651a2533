#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/export_formats.hpp"
#include "cli/export_settings.hpp"
#include "cli/machine.hpp"
#include "cli/outputs.hpp"
#include "cli/plan_output.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/host_list.hpp"

namespace nestplan::cli {
namespace {

std::vector<std::string> host_names(const std::string& list) {
  try {
    return util::expand_hosts(list);
  } catch (const InvalidInput& error) {
    throw InvalidConfig(fmt::format("--hosts: {}", error.what()));
  }
}

/// What does not fit the cluster is the plan's fault, by name.
placement::Placement placed(const Flags& flags, const std::string& plan_file,
                            const model::PlanOutline& plan, const model::Cluster& cluster) {
  if (plan.devices && *plan.devices != cluster.devices()) {
    throw InvalidInput(fmt::format(
        "{}: devices.total: the plan is for {} devices, but {} has {} (a plan for a part of a "
        "cluster needs the same --nodelist, --exclude and --choose-nodes)",
        plan_file, *plan.devices, flags.cluster, cluster.devices()));
  }
  const placement::RankOrder order = placement::parse_rank_order(*flags.rank_order);
  if (const std::string problem = placement::obstacle(plan, cluster, order); !problem.empty()) {
    throw InvalidInput(fmt::format("{}: {}", plan_file, problem));
  }
  return placement::place(plan, cluster, order, host_names(flags.hosts));
}

}  // namespace

ExitCode run_export(const Flags& flags, const std::string& plan_file) {
  if (flags.cluster.empty()) {
    throw InvalidConfig("export: --cluster is needed, the cluster that the plan was made for");
  }
  if (flags.groups && *flags.to != "placement") {
    throw InvalidConfig(fmt::format("--groups: is for --to placement, not {}", *flags.to));
  }
  if (!is_settings_format(*flags.to)) refuse_settings_flags(flags);
  std::vector<NamedFile> inputs = input_names(flags);
  inputs.push_back({"the plan", plan_file});
  refuse_shared_outputs({{"--output", flags.output}}, inputs);
  const model::PlanOutline plan = io::read_plan_outline(plan_file);
  if (plan.status == model::Status::kInfeasible) {
    print_message(fmt::format("nestplan: {}: the plan is infeasible: {}", plan_file, plan.reason));
    return ExitCode::kInfeasible;
  }
  model::Cluster cluster = io::read_cluster(flags.cluster);
  std::vector<std::string> remarks;
  apply_machine_flags(flags, cluster, remarks);
  if (!flags.quiet) {
    for (const std::string& remark : remarks) print_message(fmt::format("nestplan: {}", remark));
  }
  const auto network = network::make_network(cluster);
  const placement::Placement placement = placed(flags, plan_file, plan, cluster);
  const std::string text = is_settings_format(*flags.to)
                               ? exported_settings(flags, plan_file, cluster, placement)
                               : exported(placement, *flags.to, {*network, cluster, flags.groups});
  write_result(flags.output, text);
  return ExitCode::kDone;
}

}  // namespace nestplan::cli

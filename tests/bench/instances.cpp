#include "bench/instances.hpp"

#include <filesystem>

#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::bench {
namespace {

const std::filesystem::path kInputs = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs";

model::Problem read(const std::string& model, const std::string& cluster,
                    const cost::ProfileOptions& profile) {
  model::Problem problem;
  problem.cluster = io::read_cluster(kInputs / "clusters" / (cluster + ".json"));
  problem.graph = cost::build_graph(io::read_model(kInputs / "models" / model),
                                    problem.cluster.device, profile);
  problem.options.micro_batches = profile.micro_batches;
  problem.options.tp = profile.tp;
  problem.options.per_stage_strategies = true;
  return problem;
}

model::Problem omni(cost::Granularity granularity, cost::Granularity vision) {
  cost::ProfileOptions profile;
  profile.sequence = 4096;
  profile.tp = {2, 4};
  profile.granularity = granularity;
  profile.granularity_of["vision"] = vision;
  model::Problem problem = read("qwen2.5-omni-7b", "h100-spine-leaf-1024", profile);
  problem.options.objective = model::Objective::kPaper;
  problem.options.global_batch = 512;
  problem.options.dp = {2};
  problem.options.dp_inner = {1};
  problem.options.pp = {48};
  return problem;
}

model::Problem llama(bool mixed) {
  cost::ProfileOptions profile;
  profile.sequence = 8192;
  profile.micro_batches = {1, 2, 4};
  model::Problem problem = read("llama-3.1-405b", "h100-16384", profile);
  problem.options.global_batch = 2048;
  problem.options.allow_uneven_batch = true;
  problem.options.per_stage_strategies = mixed;
  return problem;
}

}  // namespace

model::Problem named_instance(const std::string& name) {
  using cost::Granularity;
  if (name == "omni-vision") return omni(Granularity::kBlock, Granularity::kOperator);
  if (name == "omni-operator") return omni(Granularity::kOperator, Granularity::kOperator);
  if (name == "omni-block") return omni(Granularity::kBlock, Granularity::kBlock);
  if (name == "omni-layer") {
    model::Problem problem = omni(Granularity::kLayer, Granularity::kLayer);
    problem.options.pp = {24};
    return problem;
  }
  if (name == "llama-405b") return llama(true);
  if (name == "llama-405b-uniform") return llama(false);
  std::string known;
  for (const std::string& one : instance_names()) known += (known.empty() ? "" : ", ") + one;
  throw InvalidConfig("\"" + name + "\" is not one of " + known);
}

std::vector<std::string> instance_names() {
  return {"omni-layer",    "omni-block", "omni-vision",
          "omni-operator", "llama-405b", "llama-405b-uniform"};
}

}  // namespace nestplan::bench

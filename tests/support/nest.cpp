#include "support/nest.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "nestplan/io/files.hpp"

namespace nestplan::testing {
namespace {

const std::filesystem::path kDirectory =
    std::filesystem::path(NESTPLAN_SOURCE_DIR).parent_path() / "shared" / "nest";

}  // namespace

std::optional<std::filesystem::path> nest_directory() {
  if (!std::filesystem::exists(kDirectory / "index.json")) return std::nullopt;
  return kDirectory;
}

std::vector<nlohmann::json> nest_instances() {
  if (!nest_directory()) return {};
  std::ifstream in(kDirectory / "index.json");
  return nlohmann::json::parse(in);
}

model::Problem nest_problem(const nlohmann::json& instance) {
  model::Problem problem;
  problem.graph = io::read_graph(kDirectory / instance.at("graph").get<std::string>());
  problem.cluster = io::read_cluster(kDirectory / instance.at("cluster").get<std::string>());
  problem.options.global_batch = instance.at("global_batch");
  problem.options.allow_uneven_batch = true;
  const nlohmann::json& bytes = instance.at("state_bytes");
  problem.options.state_bytes = {bytes.at(0), bytes.at(1), bytes.at(2)};
  return problem;
}

}  // namespace nestplan::testing

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "facts/run.hpp"
#include "facts/table.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/targets/targets.hpp"

namespace nestplan::facts {

/// A plan that the authors of NVIDIA-NeMo/Megatron-Bridge chose for a model and a machine.
struct BridgeRecipe {
  std::string name;
  std::string left_out;    ///< why the model has no words for it; then there is no `run`
  std::string family;      ///< "llama31_405b", …
  std::string gpu;         ///< "GB200", …
  Run run;                 ///< with the one degree of each kind that it fixes; without `blocks`
  std::string precision;   ///< "bf16", "fp8cs", "fp8mx", …
  std::string dispatcher;  ///< of tokens to experts: "deepep", "hybridep" or none
  std::vector<std::string> notes;  ///< where the words of the model are not quite the recipe's

  std::int64_t ep() const { return run.profile.ep.front(); }
  std::int64_t etp() const { return run.profile.etp.front(); }
};

/// The rows of bridge_recipes.csv.
std::vector<BridgeRecipe> bridge_recipes(const std::filesystem::path& facts);

/// As a framework's rules see the recipe, with every choice made.
targets::Candidate candidate_of(const BridgeRecipe& recipe, const model::Dimensions& model);

/// Iteration times that the authors published for their recipes.
class MeasuredTimes {
 public:
  explicit MeasuredTimes(const std::filesystem::path& facts)
      : rows_(read_table(facts / "throughput.csv")) {}

  /// The least of those with the degrees, batch, devices and precision of `recipe`; 0: none.
  double seconds(const BridgeRecipe& recipe) const;

 private:
  std::vector<Row> rows_;
};

/// The machines of accelerators.json and networks.json.
class Machines {
 public:
  /// Throws IoError.
  explicit Machines(const std::filesystem::path& facts);

  /// So many devices of kind `gpu`, in as few NVLink domains as they fill evenly; the uppermost
  /// level grows as needed. Throws InvalidInput for a kind that is not there.
  model::Cluster cluster(const std::string& gpu, std::int64_t devices) const;

 private:
  struct Fabric {
    model::Device device;
    std::vector<model::NetworkLevel> levels;
  };
  std::map<std::string, Fabric> fabrics_;
};

}  // namespace nestplan::facts

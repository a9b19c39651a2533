#include "cli/compared_methods.hpp"

#include "nestplan/baselines/baselines.hpp"

namespace nestplan::cli {

std::vector<std::string> compared_methods() {
  std::vector<std::string> methods = baselines::method_names();
  methods.insert(methods.begin(), kPlanner);
  return methods;
}

}  // namespace nestplan::cli

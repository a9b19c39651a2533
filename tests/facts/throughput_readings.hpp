#pragma once

#include <string>

#include "facts/run.hpp"
#include "facts/table.hpp"

namespace nestplan::facts {

/// Why there are no words for a row of throughput.csv in the model, whatever its architecture;
/// empty if there are.
std::string obstacle(const Row& row);

/// A row without such an obstacle as its source means it. What a table has no room for is missing
/// in its architecture: latent attention, windows, prediction of several tokens.
Run throughput_run(const Row& row);

}  // namespace nestplan::facts

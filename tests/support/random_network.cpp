#include "support/random_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace nestplan::testing {
namespace {

double random_bandwidth(Dice& dice) { return dice.pick<double>({100e9, 50e9, 25e9, 12.5e9, 5e9}); }

double random_latency(Dice& dice) { return dice.pick<double>({0, 1e-6, 4e-6, 20e-6}); }

std::int64_t random_divisor(Dice& dice, std::int64_t of) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= of; ++d) {
    if (of % d == 0) divisors.push_back(d);
  }
  return dice.pick(divisors);
}

/// Sizes of 1 to `most` that add up to `whole`; half of the time all alike.
std::vector<std::int64_t> random_blocks(Dice& dice, std::int64_t whole, std::int64_t most) {
  if (dice.chance(50)) {
    std::int64_t size = random_divisor(dice, whole);
    while (size > most) size = random_divisor(dice, whole);
    return std::vector<std::int64_t>(static_cast<std::size_t>(whole / size), size);
  }
  std::vector<std::int64_t> blocks;
  for (std::int64_t left = whole; left > 0; left -= blocks.back()) {
    blocks.push_back(std::min(left, dice.between(1, most)));
  }
  return blocks;
}

/// A level that joins `blocks[i]` blocks of the one below into its `i`-th.
model::NetworkLevel random_level(Dice& dice, std::vector<std::int64_t> blocks) {
  model::NetworkLevel level;
  level.fanout = *std::max_element(blocks.begin(), blocks.end());
  const bool alike =
      std::adjacent_find(blocks.begin(), blocks.end(), std::not_equal_to<>()) == blocks.end();
  if (!alike) level.fanouts = std::move(blocks);
  level.bandwidth = random_bandwidth(dice);
  level.latency_s = random_latency(dice);
  level.oversubscription = dice.pick<double>({1, 1, 1.5, 2, 4});
  level.in_network_reduction = dice.chance(30);
  if (dice.chance(25)) level.background = dice.pick<double>({0.1, 0.25, 0.5});
  return level;
}

}  // namespace

model::HierarchySpec random_tree(Dice& dice, std::int64_t places) {
  model::HierarchySpec tree;
  std::vector<std::int64_t> blocks = random_blocks(dice, places, 4);
  auto count = static_cast<std::int64_t>(blocks.size());
  tree.levels.push_back(random_level(dice, std::move(blocks)));
  if (count > 2 && dice.chance(60)) {
    blocks = random_blocks(dice, count, 3);
    count = static_cast<std::int64_t>(blocks.size());
    tree.levels.push_back(random_level(dice, std::move(blocks)));
  }
  tree.levels.push_back(random_level(dice, {count}));
  for (std::size_t l = 0; l < tree.levels.size(); ++l) {
    tree.levels[l].name = fmt::format("l{}", l);
    if (l > 0 && dice.chance(30)) tree.levels[l].ports = dice.between(1, 6);
  }
  if (dice.chance(40)) {
    const bool joined = tree.levels.size() > 2 && dice.chance(50);
    tree.levels[1].rails = joined ? model::Rails::kJoined : model::Rails::kIsolated;
  }
  std::vector<std::string> algorithms{"hierarchical-ring", "ring", "tree", "hierarchical-tree",
                                      "auto"};
  const auto reduces = [](const model::NetworkLevel& level) { return level.in_network_reduction; };
  if (std::any_of(tree.levels.begin(), tree.levels.end(), reduces)) {
    algorithms.emplace_back("in-network");
  }
  tree.collectives = dice.pick(algorithms);
  return tree;
}

model::TorusSpec random_grid(Dice& dice, std::int64_t places) {
  model::TorusSpec grid;
  const bool alike = dice.chance(50);
  const double bandwidth = random_bandwidth(dice);
  const double latency_s = random_latency(dice);
  for (std::int64_t left = dice.between(1, 3); left > 0; --left) {
    model::TorusDimension dimension;
    dimension.name = std::string(1, static_cast<char>('a' + grid.dimensions.size()));
    dimension.size = left == 1 ? places : random_divisor(dice, places);
    dimension.wrap = dice.chance(50);
    dimension.bandwidth = alike ? bandwidth : random_bandwidth(dice);
    dimension.latency_s = alike ? latency_s : random_latency(dice);
    if (dice.chance(20)) dimension.background = dice.pick<double>({0.1, 0.25, 0.5});
    places /= dimension.size;
    grid.dimensions.push_back(std::move(dimension));
  }
  const bool cubes = dice.chance(40);
  const bool hosts = dice.chance(60);
  for (const model::TorusDimension& dimension : grid.dimensions) {
    const std::int64_t cube = cubes ? random_divisor(dice, dimension.size) : dimension.size;
    if (cubes) grid.cube.push_back(cube);
    if (hosts) grid.host.push_back(random_divisor(dice, cube));
  }
  if (grid.dimensions.size() > 1 && dice.chance(20)) {
    grid.dimensions.back().switched = true;
    if (cubes) grid.cube.back() = 1;
    if (hosts) grid.host.back() = 1;
  }
  grid.collectives = dice.pick({"auto", "auto", "dimension-wise", "all-dimensions", "ring"});
  return grid;
}

}  // namespace nestplan::testing

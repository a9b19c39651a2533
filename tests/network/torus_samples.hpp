#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/model/cluster.hpp"
#include "support/dice.hpp"

namespace nestplan::testing {

/// A torus with links of 45 GB/s and 1 us; a mesh if not `wrap`.
inline model::TorusSpec torus_of(const std::vector<std::int64_t>& sizes, bool wrap,
                                 const std::vector<std::int64_t>& host = {},
                                 const std::vector<std::int64_t>& cube = {}) {
  model::TorusSpec spec;
  for (const std::int64_t size : sizes) {
    const std::string name(1, static_cast<char>('a' + spec.dimensions.size()));
    spec.dimensions.push_back({name, size, wrap, 45e9, 1e-6, 0});
  }
  spec.host = host;
  spec.cube = cube;
  return spec;
}

/// Makes several of a torus, 6.25 GB/s and 10 us apart.
inline void add_slices(model::TorusSpec& spec, std::int64_t count) {
  spec.dimensions.push_back({"slice", count, false, 6.25e9, 10e-6, 0, true});
  if (!spec.host.empty()) spec.host.push_back(1);
  if (!spec.cube.empty()) spec.cube.push_back(1);
}

inline std::int64_t random_divisor(Dice& dice, std::int64_t of) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= of; ++d) {
    if (of % d == 0) divisors.push_back(d);
  }
  return dice.pick(divisors);
}

/// One to four dimensions, at most `most` places; hosts and cubes or not; wraps at random; a
/// quarter in slices. Links
/// are alike in half of them.
inline model::TorusSpec random_torus(Dice& dice, std::int64_t most) {
  model::TorusSpec spec;
  std::int64_t places = 1;
  const bool alike = dice.chance(50);
  for (std::int64_t d = dice.between(1, 4); d > 0; --d) {
    model::TorusDimension dimension;
    dimension.name = std::string(1, static_cast<char>('a' + d));
    dimension.size =
        dice.between(1, std::min<std::int64_t>(dice.chance(70) ? 6 : 16, most / places));
    dimension.wrap = dice.chance(50);
    dimension.bandwidth = alike ? 45e9 : static_cast<double>(dice.between(1, 100)) * 1e9;
    dimension.latency_s = alike ? 1e-6 : static_cast<double>(dice.between(0, 5)) * 1e-6;
    dimension.background = alike || dice.chance(50) ? 0 : 0.25;
    places *= dimension.size;
    spec.dimensions.push_back(dimension);
  }
  const bool cubes = dice.chance(40);
  const bool hosts = dice.chance(50);
  for (const model::TorusDimension& dimension : spec.dimensions) {
    const std::int64_t cube = cubes ? random_divisor(dice, dimension.size) : dimension.size;
    if (cubes) spec.cube.push_back(cube);
    if (hosts) spec.host.push_back(random_divisor(dice, cube));
  }
  if (places > 1 && places * 2 <= most && dice.chance(25)) {
    add_slices(spec, dice.between(2, std::min<std::int64_t>(4, most / places)));
  }
  return spec;
}

}  // namespace nestplan::testing

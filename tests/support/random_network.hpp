#pragma once

#include <cstdint>

#include "nestplan/model/cluster.hpp"
#include "support/dice.hpp"

namespace nestplan::testing {

/// A tree of `places` places in two or three levels, "l0" the nearest: blocks of one size or of
/// several, ports, rails (joined, isolated), switches that reduce, background traffic, and every
/// algorithm for collectives. The last level is one block.
model::HierarchySpec random_tree(Dice& dice, std::int64_t places);

/// A torus or mesh of `places` places in one to three dimensions, "a" the first: closed or open,
/// with hosts, with cubes or without, maybe in slices, with background traffic, and every algorithm
/// for collectives.
model::TorusSpec random_grid(Dice& dice, std::int64_t places);

}  // namespace nestplan::testing

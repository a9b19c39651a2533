#pragma once

#include <vector>

#include "nestplan/model/cluster.hpp"
#include "report/html.hpp"
#include "report/place_uses.hpp"

namespace nestplan::report {

/// A torus or mesh as grids of its first two dimensions, one for each point of the others, with
/// lines between places of different copies.
void write_torus(Html& html, const model::TorusSpec& spec, const std::vector<PlaceUse>& uses,
                 const Looks& looks);

}  // namespace nestplan::report

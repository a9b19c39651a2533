#pragma once

#include <string>
#include <vector>

#include "importers/kernels.hpp"
#include "nestplan/importers/importers.hpp"

namespace nestplan::importers {

/// Which kernels make up the layers of a graph.
struct Layers {
  struct Layer {
    std::string name;
    bool counted = true;  ///< see model::Layer
  };
  std::vector<Layer> layers;  ///< in topological order
  std::vector<int> of;        ///< by kernel
};

/// Every kernel is a layer, or every block is: kernels of a block that cannot be together, because
/// something outside of the block lies between them, are layers "block", "block#2" …
///
/// Kernels come in the order in which the outputs ask for them, so that what is only needed late,
/// such as a mask, does not tear its block apart. Where blocks are numbered ("layers.3"), the first
/// layer of each counts for rules on the number of layers, and nothing else does.
Layers layers_of(const KernelGraph& graph, Granularity granularity);

}  // namespace nestplan::importers

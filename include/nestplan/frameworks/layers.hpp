#pragma once

#include <span>
#include <string>
#include <vector>

#include "nestplan/frameworks/recipe.hpp"
#include "nestplan/targets/layout.hpp"

namespace nestplan::frameworks {

/// What the parts of a pipeline hold, as layouts count it; or why counts cannot say it.
struct CountedParts {
  targets::PipelineLayout layout{};
  std::string problem{};  ///< then there is no layout
};

/// `parts`: ids of layers as `cost::build_graph` gives them to a model of one stack ("embedding",
/// "layer.7" or pieces of it such as "layer.7.mlp", "mtp.0", "head"), part by part in the order of
/// the pipeline. There is no layout for other ids, nor where a layer is cut or out of its order.
CountedParts counted(std::span<const std::vector<std::string>> parts);

/// The kind of model that gives its layers such ids: a decoder, an encoder-decoder or another. An
/// encoder's are a decoder's.
ModelKind kind_by_layers(std::span<const std::vector<std::string>> parts);

}  // namespace nestplan::frameworks

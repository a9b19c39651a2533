#include "frameworks/shape.hpp"

#include <algorithm>

namespace nestplan::frameworks {

void add_dropout(const ModelDetails& details, Shape& shape) {
  if (details.attention_dropout) shape.number("attention-dropout", *details.attention_dropout);
  if (details.hidden_dropout) shape.number("hidden-dropout", *details.hidden_dropout);
  shape.open(!details.attention_dropout, "--attention-dropout");
  shape.open(!details.hidden_dropout, "--hidden-dropout");
}

void add_unusual_blocks(const model::Architecture& a, Shape& shape) {
  shape.untold(std::any_of(a.windows.begin(), a.windows.end(), [](auto w) { return w > 0; }),
               "windows of attention");
  shape.untold(a.sinks, "attention sinks");
  shape.untold(a.parallel_block, "attention and MLP side by side");
}

}  // namespace nestplan::frameworks

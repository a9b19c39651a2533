#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "frameworks/arguments.hpp"
#include "nestplan/model/architecture.hpp"

namespace nestplan::frameworks {

/// Positions that a model is made for: learned ones are as many as there are; else they are a mere
/// bound, which is no less than the sequence. 0: not known.
inline std::int64_t most_positions(const model::Architecture& a, std::int64_t sequence) {
  return a.learned_positions > 0 ? a.max_positions : std::max(a.max_positions, sequence);
}

/// Collects the arguments of a model's shape, and what has none: recipes of Megatron-Bridge know
/// their model, so that there are flags alone.
class Shape {
 public:
  void value(const char* flag, std::int64_t number) { text(flag, std::to_string(number)); }
  /// As Python reads it.
  void number(const char* flag, double number) { text(flag, fmt::format("{}", number)); }
  void text(const char* flag, std::string text) {
    model_.arguments.push_back({flag, {}, std::move(text)});
  }
  void toggle(const char* flag, bool on) {
    if (on) model_.arguments.push_back({flag, {}, "true", true});
  }
  void untold(bool there, std::string what) {
    if (there) model_.untold.push_back(std::move(what));
  }
  void open(bool there, const char* what) {
    if (there) model_.open.emplace_back(what);
  }
  ModelArguments take() { return std::move(model_); }

 private:
  ModelArguments model_;
};

/// --attention-dropout, --hidden-dropout: 0.1 unless told otherwise.
void add_dropout(const ModelDetails& details, Shape& shape);

/// Blocks that no argument makes: windows, sinks, attention and MLP side by side.
void add_unusual_blocks(const model::Architecture& a, Shape& shape);

}  // namespace nestplan::frameworks

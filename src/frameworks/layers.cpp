#include "nestplan/frameworks/layers.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "nestplan/util/text.hpp"

namespace nestplan::frameworks {
namespace {

using targets::LayoutPart;

/// `N` of "layer.N" or "layer.N.mlp", with `kind` "layer".
std::optional<std::int64_t> number_in(std::string_view id, std::string_view kind) {
  if (!id.starts_with(kind) || id.size() < kind.size() + 2 || id[kind.size()] != '.') return {};
  id.remove_prefix(kind.size() + 1);
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(id.begin(), id.end(), number);
  if (error != std::errc{} || (stop != id.end() && *stop != '.')) return {};
  return number;
}

bool is_piece_of(std::string_view id, std::string_view layer) {
  return id.starts_with(layer) && (id.size() == layer.size() || id[layer.size()] == '.');
}

/// Counts layers in the order of the pipeline.
class Counter {
 public:
  /// Adds layer `id` to `part`. False, with the reason, for what has no place there.
  bool add(LayoutPart& part, const std::string& id) {
    if (is_piece_of(id, "embedding")) {
      part.embedding = true;
      return true;
    }
    if (is_piece_of(id, "head")) {
      part.loss = true;
      return true;
    }
    if (const auto layer = number_in(id, "layer")) {
      return count(part.layers, next_layer_, *layer, id);
    }
    if (const auto module = number_in(id, "mtp")) {
      return count(part.predictions, next_prediction_, *module, id);
    }
    problem_ = fmt::format("{} is neither embedding, layer.N, mtp.N nor head", util::quoted(id));
    return false;
  }

  const std::string& problem() const { return problem_; }

 private:
  bool count(std::int64_t& counted, std::int64_t& next, std::int64_t number,
             const std::string& id) {
    if (number == next) {
      ++next;
      ++counted;
      return true;
    }
    const bool piece = number + 1 == next;
    if (piece && counted > 0) return true;
    problem_ = piece ? fmt::format("{} is cut from what the stage before holds of its layer",
                                   util::quoted(id))
                     : fmt::format("{} is out of the order of the model", util::quoted(id));
    return false;
  }

  std::int64_t next_layer_ = 0;
  std::int64_t next_prediction_ = 0;
  std::string problem_;
};

}  // namespace

CountedParts counted(std::span<const std::vector<std::string>> parts) {
  CountedParts result;
  Counter counter;
  std::int64_t embeddings = 0;
  std::int64_t losses = 0;
  for (const std::vector<std::string>& ids : parts) {
    LayoutPart& part = result.layout.emplace_back();
    for (const std::string& id : ids) {
      if (!counter.add(part, id)) return {{}, counter.problem()};
    }
    embeddings += part.embedding ? 1 : 0;
    losses += part.loss ? 1 : 0;
  }
  const bool whole = embeddings == 1 && losses == 1 && result.layout.front().embedding &&
                     result.layout.back().loss;
  if (!whole) return {{}, "embedding and head are not whole in the first and in the last part"};
  return result;
}

ModelKind kind_by_layers(std::span<const std::vector<std::string>> parts) {
  bool decoder = true;
  for (const std::vector<std::string>& ids : parts) {
    for (const std::string& id : ids) {
      if (id.starts_with("encoder.layer.")) return ModelKind::kEncoderDecoder;
      decoder = decoder && (is_piece_of(id, "embedding") || is_piece_of(id, "head") ||
                            number_in(id, "layer") || number_in(id, "mtp"));
    }
  }
  return decoder ? ModelKind::kDecoder : ModelKind::kOther;
}

}  // namespace nestplan::frameworks

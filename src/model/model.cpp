#include "nestplan/model/model.hpp"

namespace nestplan::model {

const std::string& name_of(const Model& model) {
  return std::visit([](const auto& m) -> const std::string& { return m.name; }, model);
}

const std::string& family_of(const Model& model) {
  return std::visit([](const auto& m) -> const std::string& { return m.family; }, model);
}

std::int64_t total_parameters(const Model& model) {
  return std::visit([](const auto& m) { return total_parameters(m); }, model);
}

bool has_sequence(const Model& model) {
  return !std::holds_alternative<UNet>(model) &&
         !std::holds_alternative<DiffusionTransformer>(model);
}

std::int64_t max_positions(const Model& model) {
  if (const auto* m = std::get_if<Architecture>(&model)) return m->max_positions;
  if (const auto* m = std::get_if<EncoderDecoder>(&model)) return m->encoder.max_positions;
  if (const auto* m = std::get_if<Multimodal>(&model)) return m->text.max_positions;
  return 0;
}

std::vector<TokenCount> token_counts(const Model& model) {
  if (std::holds_alternative<EncoderDecoder>(model)) return {{"decoder", 0}};
  if (const auto* unet = std::get_if<UNet>(&model)) return {{"text", unet->context_tokens}};
  std::vector<TokenCount> counts;
  if (const auto* m = std::get_if<Multimodal>(&model)) {
    for (const Tower& tower : m->towers) counts.push_back({tower.id, tower.tokens});
  }
  return counts;
}

}  // namespace nestplan::model

#include "nestplan/frameworks/model_details.hpp"

#include <initializer_list>
#include <nlohmann/json.hpp>

namespace nestplan::frameworks {
namespace {

using Json = nlohmann::json;

/// The first of `keys` that is a number. Families spell the same thing in several ways
/// (huggingface/transformers src/transformers/models/*/configuration_*.py).
std::optional<double> number(const Json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_number()) return found->get<double>();
  }
  return {};
}

std::string word(const Json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_string()) return found->get<std::string>();
  }
  return "";
}

/// `rope_scaling`, or the `rope_parameters` that took its place and hold the base as well.
void read_rotation(const Json& config, ModelDetails& details) {
  details.rotary_base = number(config, {"rope_theta", "rotary_emb_base"});
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    if (!details.rotary_base) details.rotary_base = number(*found, {"rope_theta"});
    details.rope_scaling = word(*found, {"rope_type", "type"});
    if (details.rope_scaling == "default") details.rope_scaling.clear();
    for (const auto& [name, value] : found->items()) {
      if (value.is_number()) details.scaling_numbers[name] = value.get<double>();
    }
  }
}

void read_router(const Json& config, ModelDetails& details) {
  details.score_function = word(config, {"scoring_func"});
  details.routed_scaling = number(config, {"routed_scaling_factor"});
  details.router_groups = number(config, {"n_group"});
  details.chosen_groups = number(config, {"topk_group"});
  details.corrected_routing = word(config, {"topk_method"}) == "noaux_tc";
  const auto found = config.find("norm_topk_prob");
  if (found != config.end() && found->is_boolean()) details.normalised_routing = found->get<bool>();
}

}  // namespace

ModelDetails details_of(std::string_view config) {
  ModelDetails details;
  const Json json = Json::parse(config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return details;
  read_rotation(json, details);
  read_router(json, details);
  details.rotary_share = number(json, {"partial_rotary_factor", "rotary_pct"});
  details.norm_epsilon =
      number(json, {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"});
  details.attention_dropout = number(
      json, {"attention_dropout", "attn_pdrop", "attention_probs_dropout_prob", "dropout_rate"});
  details.hidden_dropout =
      number(json, {"hidden_dropout", "resid_pdrop", "hidden_dropout_prob", "dropout_rate"});
  details.activation =
      word(json, {"hidden_act", "hidden_activation", "activation_function", "dense_act_fn"});
  return details;
}

}  // namespace nestplan::frameworks

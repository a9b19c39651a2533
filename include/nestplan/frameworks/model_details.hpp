#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace nestplan::frameworks {

/// What the config of a model tells beside its shape: no cost depends on it, but programs that
/// train the model want to be told. Empty: the config does not say.
struct ModelDetails {
  std::optional<double> rotary_base{};
  std::optional<double> rotary_share{};  ///< of a head's width that is rotated
  std::optional<double> norm_epsilon{};
  std::optional<double> attention_dropout{};
  std::optional<double> hidden_dropout{};
  std::string activation{};                       ///< as Hugging Face calls it: "silu", "gelu_new"
  std::string rope_scaling{};                     ///< "llama3", "yarn", …
  std::map<std::string, double> scaling_numbers;  ///< of `rope_scaling`, by key

  std::string score_function{};  ///< of the router
  std::optional<double> routed_scaling{};
  std::optional<double> router_groups{};
  std::optional<double> chosen_groups{};
  std::optional<bool> normalised_routing{};  ///< weights of the chosen experts add up to 1
  bool corrected_routing = false;            ///< by a bias that no gradient reaches (noaux_tc)
};

/// Of a config.json of Hugging Face, whose shape was read before: of other values than numbers and
/// names nothing is said.
ModelDetails details_of(std::string_view config);

}  // namespace nestplan::frameworks

#include <fstream>
#include <nlohmann/json.hpp>

#include "facts/readings.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::facts {
namespace {

using Json = nlohmann::json;

std::int64_t number(const Json& entry, const char* key, std::int64_t fallback) {
  const auto found = entry.find(key);
  return found == entry.end() || found->is_null() ? fallback : found->get<std::int64_t>();
}

bool flag(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_boolean() && found->get<bool>();
}

/// A gated MLP goes with root-mean-square norms and rotary positions, a plain one with biases,
/// dropout and a table of positions: true of the models that are asked for here.
void add_style(const Json& entry, model::Architecture& a) {
  a.gated_mlp = flag(entry, "gated_mlp");
  a.tied_embeddings = flag(entry, "tied_embeddings");
  if (a.gated_mlp) {
    a.norm = model::NormKind::kRmsNorm;
    a.rotary = true;
    return;
  }
  a.bias.qkv = a.bias.attention_output = a.bias.mlp = true;
  a.hidden_dropout = true;
  a.max_positions = a.learned_positions = number(entry, "typical_train_seq", 2048);
}

model::Architecture architecture_of(const Json& entry) {
  model::Architecture a;
  a.name = entry.at("name");
  a.family = a.name;
  a.layers = number(entry, "layers", 0);
  a.hidden = number(entry, "hidden", 0);
  a.heads = number(entry, "heads", 0);
  a.kv_heads = number(entry, "kv_heads", a.heads);
  a.head_dim = number(entry, "head_dim", a.heads > 0 ? a.hidden / a.heads : 0);
  a.ffn = number(entry, "ffn", 0);
  a.vocab = number(entry, "vocab", 0);
  add_style(entry, a);
  if (const std::int64_t experts = number(entry, "experts", 0); experts > 0) {
    a.moe = model::MixtureOfExperts();
    a.moe->experts = experts;
    a.moe->top_k = number(entry, "experts_per_token", 1);
    a.moe->expert_ffn = number(entry, "moe_ffn", a.ffn);
  }
  return a;
}

}  // namespace

Catalogue::Catalogue(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw IoError("facts: cannot read " + path.string());
  for (const Json& entry : Json::parse(in)) {
    const bool transformer = entry.contains("layers") && entry.contains("heads");
    if (transformer) architectures_[entry.at("name")] = architecture_of(entry);
  }
}

const model::Architecture& Catalogue::at(const std::string& name) const {
  const auto found = architectures_.find(name);
  if (found == architectures_.end()) throw InvalidInput("models.json: there is no " + name);
  return found->second;
}

}  // namespace nestplan::facts

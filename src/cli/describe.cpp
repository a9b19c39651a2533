#include "cli/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <variant>
#include <vector>

#include "cli/inputs.hpp"
#include "cli/text.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/lattice/lattice.hpp"
#include "nestplan/model/model.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string parameters_text(std::int64_t count) {
  const auto value = static_cast<double>(count);
  const std::string brief = count >= 1'000'000'000 ? fmt::format("{:.2f} billion", value / 1e9)
                                                   : fmt::format("{:.2f} million", value / 1e6);
  return fmt::format("{} ({})", util::format_count(count), brief);
}

/// Sums over the layers that can use a strategy.
struct StrategyTotals {
  std::size_t layers = 0;
  double forward_s = 0;
  double backward_s = 0;
  double parameters = 0;
  double activation_bytes = 0;
};

StrategyTotals totals_of(const model::Graph& graph, std::size_t strategy) {
  StrategyTotals totals;
  for (const model::Layer& layer : graph.layers) {
    const std::optional<model::LayerCost>& cost = layer.costs[strategy];
    if (!cost) continue;
    ++totals.layers;
    totals.forward_s += cost->forward_s;
    totals.backward_s += cost->backward_s;
    totals.parameters += cost->parameters + cost->expert_parameters;
    totals.activation_bytes += cost->activation_bytes;
  }
  return totals;
}

/// Whether any two layers are ordered by the edges, so that stages can only be cut in one order.
bool is_chain(const model::Graph& graph) {
  const std::vector<int> order = model::topological_order(graph);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const auto joins = [&](const model::Edge& edge) {
      return edge.from == order[i] && edge.to == order[i + 1];
    };
    if (std::none_of(graph.edges.begin(), graph.edges.end(), joins)) return false;
  }
  return true;
}

std::vector<std::string> layer_ids(const model::Graph& graph) {
  std::vector<std::string> ids;
  for (const int layer : model::topological_order(graph)) {
    ids.push_back(graph.layers[static_cast<std::size_t>(layer)].id);
  }
  return ids;
}

/// A member of a plan document as text; "?" where a plan written by hand does not say.
std::string member_text(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return "?";
  const nlohmann::json& value = object.at(key);
  return value.is_string() ? printable(value.get<std::string>()) : value.dump();
}

std::optional<double> member_number(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_number()) return {};
  return object.at(key).get<double>();
}

std::vector<std::string> member_names(const nlohmann::json& object, const char* key) {
  std::vector<std::string> names;
  if (!object.is_object() || !object.contains(key)) return names;
  for (const nlohmann::json& name : object.at(key)) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

std::string stages_text(const nlohmann::json& stages) {
  Table table({{"stage", Table::Align::kRight},
               {"layers"},
               {"strategy"},
               {"position", Table::Align::kRight},
               {"devices", Table::Align::kRight},
               {"recompute"},
               {"ZeRO", Table::Align::kRight},
               {"per micro-batch", Table::Align::kRight},
               {"memory", Table::Align::kRight}});
  std::size_t number = 0;
  for (const nlohmann::json& stage : stages) {
    const nlohmann::json none;
    const auto part = [&](const char* key) -> const nlohmann::json& {
      return stage.is_object() && stage.contains(key) ? stage.at(key) : none;
    };
    const auto time = member_number(part("time"), "total_s");
    const auto memory = member_number(part("memory"), "total_bytes");
    table.add({fmt::format("{}", ++number), names_text(member_names(stage, "layers")),
               member_text(stage, "strategy"), member_text(stage, "position"),
               member_text(stage, "devices"), member_text(stage, "recompute"),
               member_text(stage, "zero"), time ? util::format_seconds(*time) : "?",
               memory ? util::format_bytes_binary(*memory) : "?"});
  }
  return table.text(1);
}

/// More than this many are not counted.
constexpr std::int64_t kMostDownsets = 500'000;

/// Sets of layers that a pipeline can be cut at; empty if there are more than kMostDownsets.
std::optional<std::int64_t> count_downsets(const model::Graph& graph) {
  try {
    return lattice::Lattice::enumerate(graph, kMostDownsets).size();
  } catch (const MemoryLimit&) {
    return std::nullopt;
  }
}

std::string downsets_text(const std::optional<std::int64_t>& downsets) {
  return downsets ? util::format_count(*downsets)
                  : fmt::format("more than {}", util::format_count(kMostDownsets));
}

Json downsets_json(const std::optional<std::int64_t>& downsets) {
  return downsets ? Json(*downsets) : Json(nullptr);
}

std::string stack_text(const model::Architecture& a) {
  const std::string kv =
      a.kv_heads == a.heads ? "" : fmt::format(" ({} for keys and values)", a.kv_heads);
  return fmt::format("{} of {}, {} of {}{}, MLP {}{}", counted(a.layers, "layer"),
                     util::format_count(a.hidden), counted(a.heads, "head"), a.head_dim, kv,
                     util::format_count(a.ffn), a.gated_mlp ? ", gated" : "");
}

Json stack_json(const model::Architecture& a) {
  return Json{{"layers", a.layers},      {"hidden", a.hidden},     {"heads", a.heads},
              {"kv_heads", a.kv_heads},  {"head_dim", a.head_dim}, {"ffn", a.ffn},
              {"gated_mlp", a.gated_mlp}};
}

/// What is particular to a kind of model: lines, and members of the JSON object, whose `parameters`
/// are an object.
struct Details {
  std::string text;
  Json json;
};

std::string attention_text(const model::Architecture& a) {
  if (!a.latent) {
    return fmt::format("{} heads of {}, {} for keys and values", a.heads, a.head_dim, a.kv_heads);
  }
  const model::LatentAttention& l = *a.latent;
  const std::string queries =
      l.query_rank > 0 ? fmt::format("{} for queries, ", util::format_count(l.query_rank)) : "";
  return fmt::format("{} heads of {} + {} rotated, values of {}; latent: {}{} for keys and values",
                     a.heads, l.content_dim, l.position_dim, l.value_dim, queries,
                     util::format_count(l.kv_rank));
}

Json latent_json(const model::LatentAttention& l) {
  return Json{{"query_rank", l.query_rank},
              {"kv_rank", l.kv_rank},
              {"content_dim", l.content_dim},
              {"position_dim", l.position_dim},
              {"value_dim", l.value_dim}};
}

std::int64_t count_routed(const model::Architecture& a) {
  return a.layers - static_cast<std::int64_t>(a.moe->dense_blocks.size());
}

std::string experts_text(const model::Architecture& a) {
  const model::MixtureOfExperts& moe = *a.moe;
  const std::string shared =
      moe.shared_ffn > 0 ? fmt::format(", shared {}", util::format_count(moe.shared_ffn)) : "";
  return fmt::format("{} of {}{}, {} per token{}, in {} of {}", moe.experts,
                     util::format_count(moe.expert_ffn), a.gated_mlp ? ", gated" : "", moe.top_k,
                     shared, util::format_count(count_routed(a)), counted(a.layers, "layer"));
}

Json experts_json(const model::Architecture& a) {
  const model::MixtureOfExperts& moe = *a.moe;
  return Json{{"count", moe.experts},
              {"per_token", moe.top_k},
              {"ffn", moe.expert_ffn},
              {"shared_ffn", moe.shared_ffn},
              {"layers", count_routed(a)}};
}

/// Layers of one kind: with experts or, if there are any beside these, without.
struct LayerKind {
  const char* name;
  std::int64_t count = 0;
  std::int64_t parameters = 0;  ///< of each
};

std::vector<LayerKind> layer_kinds(const model::Architecture& a) {
  LayerKind plain{"layer"};
  LayerKind routed{"MoE layer"};
  for (std::int64_t i = 0; i < a.layers; ++i) {
    LayerKind& kind = a.routed(i) ? routed : plain;
    if (kind.count++ > 0) continue;
    kind.parameters = model::block_parameters(a, i).total(a.vocab) + model::expert_parameters(a, i);
  }
  std::vector<LayerKind> kinds;
  for (const LayerKind& kind : {plain, routed}) {
    if (kind.count > 0) kinds.push_back(kind);
  }
  return kinds;
}

Details parameters_of(const model::Architecture& a) {
  const std::int64_t embedding = model::embedding_parameters(a).total(a.vocab);
  const std::int64_t head = model::head_parameters(a).total(a.vocab);
  const std::int64_t total = model::total_parameters(a);
  Details d;
  d.text = described("parameters", parameters_text(total));
  d.json = Json{{"total", total}, {"embedding", embedding}};
  if (a.moe) {
    const std::int64_t active = model::active_parameters(a);
    d.text += described("  per token", parameters_text(active));
    d.json["active"] = active;
  }
  d.text += described("  embedding", parameters_text(embedding));
  for (const LayerKind& kind : layer_kinds(a)) {
    d.text += described(
        fmt::format("  {}", kind.name),
        fmt::format("{} × {}", util::format_count(kind.count), parameters_text(kind.parameters)));
    d.json[kind.name == std::string("layer") ? "layer" : "expert_layer"] = kind.parameters;
  }
  d.text += described("  head", parameters_text(head));
  d.json["head"] = head;
  if (a.mtp_layers > 0) {
    const std::int64_t mtp = model::mtp_parameters(a);
    d.text += described("prediction",
                        fmt::format("{} more {}, beside: {}", a.mtp_layers,
                                    a.mtp_layers == 1 ? "token" : "tokens", parameters_text(mtp)));
    d.json["mtp"] = mtp;
  }
  return d;
}

Details details_of(const model::Architecture& a) {
  const Details parameters = parameters_of(a);
  const std::string mlp =
      fmt::format("{}{}", util::format_count(a.ffn), a.gated_mlp ? ", gated" : "");
  Details d;
  d.text = described("family", fmt::format("{}, {}", a.family, a.causal ? "decoder" : "encoder")) +
           described("layers", util::format_count(a.layers)) +
           described("hidden", util::format_count(a.hidden)) +
           described("attention", attention_text(a)) +
           (a.has_plain_mlp() ? described("MLP", mlp) : "") +
           (a.moe ? described("experts", experts_text(a)) : "") +
           described("vocabulary", fmt::format("{}{}", util::format_count(a.vocab),
                                               a.tied_embeddings ? ", tied output layer" : "")) +
           described("positions", util::format_count(a.max_positions)) + parameters.text;
  d.json = Json{{"causal", a.causal},
                {"layers", a.layers},
                {"hidden", a.hidden},
                {"heads", a.heads},
                {"kv_heads", a.kv_heads},
                {"head_dim", a.head_dim},
                {"ffn", a.ffn},
                {"gated_mlp", a.gated_mlp},
                {"vocab", a.vocab},
                {"tied_embeddings", a.tied_embeddings},
                {"max_positions", a.max_positions}};
  if (a.moe) d.json["experts"] = experts_json(a);
  if (a.latent) d.json["latent_attention"] = latent_json(*a.latent);
  if (a.mtp_layers > 0) d.json["mtp_layers"] = a.mtp_layers;
  d.json["parameters"] = parameters.json;
  return d;
}

Details details_of(const model::EncoderDecoder& m) {
  const std::int64_t total = model::total_parameters(m);
  Details d;
  d.text =
      described("family", fmt::format("{}, encoder and decoder", m.family)) +
      described("encoder", stack_text(m.encoder)) + described("decoder", stack_text(m.decoder)) +
      described("vocabulary", fmt::format("{}{}", util::format_count(m.decoder.vocab),
                                          m.decoder.tied_embeddings ? ", tied output layer" : "")) +
      described("parameters", parameters_text(total));
  d.json = Json{{"encoder", stack_json(m.encoder)},
                {"decoder", stack_json(m.decoder)},
                {"vocab", m.decoder.vocab},
                {"tied_embeddings", m.decoder.tied_embeddings},
                {"parameters", {{"total", total}}}};
  return d;
}

Details details_of(const model::Multimodal& m) {
  const std::int64_t total = model::total_parameters(m);
  const std::int64_t text = model::total_parameters(m.text);
  Details d;
  Json parameters{{"total", total}};
  std::string counts = described("parameters", parameters_text(total));
  d.text = described("family", fmt::format("{}, towers and a language model", m.family));
  for (const model::Tower& tower : m.towers) {
    const std::int64_t own = model::total_parameters(tower);
    d.text += described(tower.id, stack_text(tower.blocks));
    d.json[tower.id] = stack_json(tower.blocks);
    counts += described("  " + tower.id, parameters_text(own));
    parameters[tower.id] = own;
  }
  parameters["text"] = text;
  d.text += described("text", stack_text(m.text)) +
            described("vocabulary", util::format_count(m.text.vocab)) + counts +
            described("  text", parameters_text(text));
  d.json["text"] = stack_json(m.text);
  d.json["vocab"] = m.text.vocab;
  d.json["parameters"] = parameters;
  return d;
}

Details details_of(const model::UNet& m) {
  const std::int64_t total = model::total_parameters(m);
  std::string levels;
  Json json_levels = Json::array();
  for (const model::UNetLevel& level : m.levels) {
    levels += fmt::format("{}{}", levels.empty() ? "" : ", ", util::format_count(level.channels));
    if (level.depth > 0) levels += " with " + counted(level.depth, "transformer block");
    json_levels.push_back(
        {{"channels", level.channels}, {"depth", level.depth}, {"heads", level.heads}});
  }
  Details d;
  d.text =
      described("family", fmt::format("{}, a U-Net", m.family)) + described("channels", levels) +
      described("image",
                fmt::format("{} × {} latents of {}", m.sample_size, m.sample_size, m.in_channels)) +
      described("parameters", parameters_text(total));
  d.json = Json{
      {"levels", json_levels}, {"sample_size", m.sample_size}, {"parameters", {{"total", total}}}};
  return d;
}

Details details_of(const model::DiffusionTransformer& m) {
  const std::int64_t total = model::total_parameters(m);
  const std::int64_t block = model::block_parameters(m.blocks).total(m.blocks.vocab);
  Details d;
  d.text = described("family", fmt::format("{}, a diffusion transformer", m.family)) +
           described("blocks", stack_text(m.blocks)) +
           described("image",
                     fmt::format("{} × {} latents of {} in {} tokens", m.sample_size, m.sample_size,
                                 m.in_channels, util::format_count(m.tokens()))) +
           described("parameters", parameters_text(total)) +
           described("  layer", fmt::format("{} × {}", util::format_count(m.blocks.layers),
                                            parameters_text(block))) +
           described("  head", parameters_text(head_parameters(m)));
  d.json = Json{{"blocks", stack_json(m.blocks)},
                {"sample_size", m.sample_size},
                {"patch", m.patch},
                {"tokens", m.tokens()},
                {"parameters", {{"total", total}, {"layer", block}}}};
  return d;
}

std::string tokens_text(const model::Model& model, const cost::ProfileOptions& options) {
  std::string text = has_sequence(model) ? fmt::format("{} tokens per sequence",
                                                       util::format_count(options.sequence))
                                         : "one image";
  for (const model::TokenCount& count : token_counts(model)) {
    const auto given = options.tokens.find(count.part);
    const std::int64_t tokens = given != options.tokens.end() ? given->second
                                : count.tokens > 0            ? count.tokens
                                                              : options.sequence;
    text += fmt::format(", {} {}", count.part, util::format_count(tokens));
  }
  return text;
}

}  // namespace

Description describe_model(const std::string& path, const Flags& flags) {
  const model::Model m = io::read_model(path);
  const cost::ProfileOptions options = shape_options(flags, m);
  const double flops = cost::model_flops_per_sample(m, options);
  const model::Graph outline = cost::build_outline(m, options);
  const std::optional<std::int64_t> downsets = count_downsets(outline);
  const Details details = std::visit([](const auto& each) { return details_of(each); }, m);
  const char* granularity = to_string(options.granularity);

  Description d;
  d.text = title("model", name_of(m), path) + details.text;
  d.json = Json{{"kind", "model"}, {"file", path}, {"name", name_of(m)}, {"family", family_of(m)}};
  d.json.update(details.json);
  if (std::holds_alternative<model::Architecture>(m)) {
    const double per_token = flops / static_cast<double>(options.sequence);
    d.text += described(
        "training",
        fmt::format("{} per token, forward and backward, at {} tokens per sequence",
                    util::format_si(per_token, "FLOP"), util::format_count(options.sequence)));
    d.json["sequence"] = options.sequence;
    d.json["flops_per_token"] = per_token;
  } else {
    d.text +=
        described("training", fmt::format("{} per sample, forward and backward ({})",
                                          util::format_si(flops, "FLOP"), tokens_text(m, options)));
    if (has_sequence(m)) d.json["sequence"] = options.sequence;
  }
  d.json["flops_per_sample"] = flops;
  d.text += described("graph", fmt::format("{}, {}, {} downsets (granularity {})",
                                           counted(std::ssize(outline.layers), "layer"),
                                           counted(std::ssize(outline.edges), "edge"),
                                           downsets_text(downsets), granularity));
  d.json["graph"] = {{"granularity", granularity},
                     {"layers", outline.layers.size()},
                     {"edges", outline.edges.size()},
                     {"downsets", downsets_json(downsets)}};
  return d;
}

Description describe_graph(const std::string& path, std::string_view text) {
  const model::Graph graph = io::parse_graph(text, path);
  const bool chain = is_chain(graph);
  const std::optional<std::int64_t> downsets = count_downsets(graph);

  Table table({{"strategy"},
               {"tp", Table::Align::kRight},
               {"cp", Table::Align::kRight},
               {"ep", Table::Align::kRight},
               {"micro-batch", Table::Align::kRight},
               {"layers", Table::Align::kRight},
               {"forward", Table::Align::kRight},
               {"backward", Table::Align::kRight},
               {"parameters", Table::Align::kRight},
               {"activations", Table::Align::kRight}});
  Json strategies = Json::array();
  for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
    const model::Strategy& strategy = graph.strategies[s];
    const StrategyTotals totals = totals_of(graph, s);
    table.add({printable(strategy.id), fmt::format("{}", strategy.tp),
               fmt::format("{}", strategy.cp), fmt::format("{}", strategy.ep),
               fmt::format("{}", strategy.micro_batch), fmt::format("{}", totals.layers),
               util::format_seconds(totals.forward_s), util::format_seconds(totals.backward_s),
               util::format_si(totals.parameters, ""),
               util::format_bytes_binary(totals.activation_bytes)});
    strategies.push_back({{"id", strategy.id},
                          {"tp", strategy.tp},
                          {"cp", strategy.cp},
                          {"ep", strategy.ep},
                          {"micro_batch", strategy.micro_batch},
                          {"layers", totals.layers},
                          {"forward_s", totals.forward_s},
                          {"backward_s", totals.backward_s},
                          {"parameters", totals.parameters},
                          {"activation_bytes", totals.activation_bytes}});
  }

  Description d;
  d.text =
      title("graph", graph.name, path) +
      described("layers", fmt::format("{}: {}", graph.layers.size(),
                                      shortened(names_text(layer_ids(graph)), 90))) +
      described("edges", fmt::format("{}", graph.edges.size())) +
      described("shape", chain ? "a chain: stages can be cut in one order only" : "branching") +
      described("downsets", downsets_text(downsets)) +
      "\n  sums over the layers, per device and micro-batch\n" + table.text(0);
  d.json = Json{{"kind", "graph"},
                {"file", path},
                {"name", graph.name},
                {"layers", graph.layers.size()},
                {"edges", graph.edges.size()},
                {"chain", chain},
                {"downsets", downsets_json(downsets)},
                {"strategies", strategies}};
  return d;
}

std::string title(const char* kind, const std::string& name, const std::string& path) {
  return fmt::format("{} {} ({})\n", kind, printable(name), printable(path));
}

std::string described(std::string_view label, const std::string& text) {
  return fmt::format("  {:<14}{}\n", label, text);
}

Description describe_plan(const std::string& path, std::string_view text) {
  const auto plan = nlohmann::json::parse(text);  // has been through detect_format
  const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json& strategy = plan.contains("strategy") ? plan.at("strategy") : none;

  std::string summary = member_text(plan, "status");
  if (const auto seconds = member_number(plan, "iteration_time_s")) {
    summary += fmt::format(", {} per iteration (objective {})", precise_seconds(*seconds),
                           member_text(plan, "objective"));
  }
  std::string degrees;
  for (const char* key :
       {"dp", "dp_inner", "dp_outer", "pp", "micro_batch", "microbatches", "schedule"}) {
    degrees +=
        fmt::format("{}{} {}", degrees.empty() ? "" : " · ", key, member_text(strategy, key));
  }

  Description d;
  const std::string name =
      fmt::format("of {} on {}", member_text(plan, "model"), member_text(plan, "cluster"));
  d.text = fmt::format("plan {} ({})\n", name, printable(path)) + described("status", summary) +
           described("strategy", degrees);
  if (plan.contains("stages")) d.text += '\n' + stages_text(plan.at("stages"));
  d.json = Json{{"kind", "plan"}, {"file", path}};
  for (const auto& [key, value] : plan.items()) {
    if (key != "format") d.json[key] = value;
  }
  return d;
}

}  // namespace nestplan::cli

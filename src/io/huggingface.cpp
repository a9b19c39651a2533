#include "nestplan/io/huggingface.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/huggingface_config.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::io {
namespace {

using model::Architecture;
using model::NormKind;

/// What a family calls its dimensions; empty where it has no such key.
struct Keys {
  const char* layers = "num_hidden_layers";
  const char* hidden = "hidden_size";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "";
  const char* head_dim = "";
  const char* ffn = "intermediate_size";
  const char* positions = "max_position_embeddings";
  const char* dropout = "";
  bool ffn_needed = true;       ///< false: absent means four times hidden
  bool position_table = false;  ///< positions are learned, so their number is needed
};

constexpr Keys kModern{.kv_heads = "num_key_value_heads", .head_dim = "head_dim"};
/// With latent attention the head dimensions are given part by part.
constexpr Keys kLatent{.head_dim = "v_head_dim"};
constexpr Keys kGpt2{.layers = "n_layer",
                     .hidden = "n_embd",
                     .heads = "n_head",
                     .ffn = "n_inner",
                     .positions = "n_positions",
                     .dropout = "resid_pdrop",
                     .ffn_needed = false,
                     .position_table = true};
constexpr Keys kGptJ{.layers = "n_layer",
                     .hidden = "n_embd",
                     .heads = "n_head",
                     .ffn = "n_inner",
                     .positions = "n_positions",
                     .dropout = "resid_pdrop",
                     .ffn_needed = false};
constexpr Keys kGptNeo{.layers = "num_layers",
                       .heads = "num_heads",
                       .dropout = "resid_dropout",
                       .ffn_needed = false,
                       .position_table = true};
constexpr Keys kGptNeoX{.dropout = "hidden_dropout"};
constexpr Keys kOpt{.ffn = "ffn_dim", .dropout = "dropout", .position_table = true};
constexpr Keys kFalcon{.ffn = "ffn_hidden_size", .dropout = "hidden_dropout", .ffn_needed = false};
constexpr Keys kBloom{.layers = "n_layer",
                      .heads = "n_head",
                      .ffn = "",
                      .positions = "seq_length",
                      .dropout = "hidden_dropout",
                      .ffn_needed = false};
constexpr Keys kBert{.dropout = "hidden_dropout_prob", .position_table = true};

/// Root-mean-square norms, gated MLP, rotary positions, no biases.
Architecture llama_like() {
  Architecture a;
  a.norm = NormKind::kRmsNorm;
  a.gated_mlp = a.rotary = true;
  return a;
}

/// Layer norms, two-matrix MLP, biases everywhere.
Architecture gpt_like() {
  Architecture a;
  a.bias.qkv = a.bias.attention_output = a.bias.mlp = true;
  return a;
}

Architecture bert_like() {
  Architecture a = gpt_like();
  a.causal = false;
  a.post_norm = a.embedding_norm = a.mlm_transform = a.bias.head = true;
  return a;
}

void set_attention_bias(Architecture& a, bool bias) { a.bias.qkv = a.bias.attention_output = bias; }

void read_llama(const Config& config, Architecture& a) {
  set_attention_bias(a, config.flag("attention_bias", false));
  a.bias.mlp = config.flag("mlp_bias", false);
}

void read_mistral(const Config& config, Architecture& a) {
  if (const auto window = config.maybe_count("sliding_window")) set_window(a, *window, 0, 0);
}

void read_qwen2(const Config& config, Architecture& a) {
  a.bias.qkv = true;
  if (!config.flag("use_sliding_window", false)) return;
  const auto first = config.find("max_window_layers");
  set_window(a, config.count("sliding_window"), first ? first->integer(0, kMostLayers) : 0, 0);
}

void read_qwen3(const Config& config, Architecture& a) {
  read_qwen2(config, a);
  a.qk_norm = true;
  set_attention_bias(a, config.flag("attention_bias", false));
}

void read_gemma(const Config& config, Architecture& a) {
  set_attention_bias(a, config.flag("attention_bias", false));
}

void read_gemma2(const Config& config, Architecture& a) {
  read_gemma(config, a);
  a.output_norms = 2;
  set_window(a, config.count("sliding_window"), 0, 2);
}

void read_gpt2(const Config& /*config*/, Architecture& /*a*/) {}

void read_bigcode(const Config& config, Architecture& a) {
  if (config.flag("multi_query", true)) a.kv_heads = 1;
}

/// `attention_types` is a list of [kinds, repetitions].
void read_gpt_neo(const Config& config, Architecture& a) {
  a.bias.qkv = false;
  const Field types = config.at("attention_types");
  for (const Field& entry : types.items()) {
    const std::vector<Field> parts = entry.items();
    if (parts.size() != 2) entry.fail("must be a pair of kinds and repetitions");
    for (std::int64_t i = parts[1].integer(1, kMostLayers); i > 0; --i) {
      for (const Field& kind : parts[0].items()) {
        if (kind.text() != "global" && kind.text() != "local") kind.fail("must be global or local");
        a.windows.push_back(kind.text() == "local" ? config.count("window_size") : 0);
      }
    }
  }
  if (std::cmp_not_equal(a.windows.size(), a.layers)) {
    types.fail("describes " + std::to_string(a.windows.size()) + " layers, not the " +
               std::to_string(a.layers) + " of num_layers");
  }
}

void read_neox(const Config& config, Architecture& a) {
  a.rotary = true;
  a.parallel_block = config.flag("use_parallel_residual", true);
  set_attention_bias(a, config.flag("attention_bias", true));
}

void read_gptj(const Config& /*config*/, Architecture& a) {
  a.rotary = a.parallel_block = true;
  a.input_norms = 1;
  set_attention_bias(a, false);
  a.bias.head = true;
}

void read_opt(const Config& config, Architecture& a) {
  const auto projection = config.find("word_embed_proj_dim");
  if (projection && projection->integer(1, kLargestWidth) != a.hidden) {
    projection->fail("must equal hidden_size (" + std::to_string(a.hidden) + ")");
  }
  if (!config.flag("do_layer_norm_before", true)) {
    config.at("do_layer_norm_before").fail("must be true for a decoder");
  }
  constexpr std::int64_t kPositionOffset = 2;
  a.learned_positions += kPositionOffset;
  set_attention_bias(a, config.flag("enable_bias", true));
  a.bias.mlp = a.bias.qkv;
}

void read_falcon(const Config& config, Architecture& a) {
  const bool grouped = config.flag("new_decoder_architecture", false);
  if (grouped) {
    a.kv_heads = config.maybe_count("num_kv_heads").value_or(a.heads);
  } else if (config.flag("multi_query", true)) {
    a.kv_heads = 1;
  }
  a.parallel_block = grouped || config.flag("parallel_attn", true);
  const auto norms = config.find("num_ln_in_parallel_attn");
  a.input_norms = !a.parallel_block ? 2
                  : grouped         ? static_cast<int>(norms ? norms->integer(1, 2) : 2)
                                    : 1;
  a.rotary = !config.flag("alibi", false);
  set_attention_bias(a, config.flag("bias", false));
  a.bias.mlp = a.bias.qkv;
}

void read_bloom(const Config& /*config*/, Architecture& a) { a.embedding_norm = true; }

void read_bert(const Config& config, Architecture& a) {
  a.token_types = config.count("type_vocab_size");
  if (config.flag("is_decoder", false)) config.at("is_decoder").fail("must be false");
  const auto classes = config.find("architectures");
  if (!classes) return;
  for (const Field& name : classes->items()) {
    a.pooler = a.pooler || name.text() == "BertForPreTraining";
  }
}

/// Position ids start behind the padding index, so the first rows of the table are never used.
void read_roberta(const Config& config, Architecture& a) {
  read_bert(config, a);
  const auto padding = config.find("pad_token_id");
  const std::int64_t unused = 1 + (padding ? padding->integer(0, kLargestWidth) : 1);
  if (unused >= a.max_positions) {
    config.at("max_position_embeddings").fail("leaves no position behind pad_token_id");
  }
  a.max_positions -= unused;
}

/// A family's layer design, beside what its `read` takes from further keys. Source:
/// configuration_*.py and modeling_*.py of github.com/huggingface/transformers (4.40 to 4.51).
struct Family {
  const char* type;
  Keys keys;
  Architecture design;
  bool tied;           ///< default of tie_word_embeddings
  double dropout;      ///< default of keys.dropout
  const char* needed;  ///< a key whose default belongs to one checkpoint, so it must be given
  void (*read)(const Config&, Architecture&);
  bool experts = false;
};

const std::vector<Family>& families() {
  static const std::vector<Family> table{
      {"llama", kModern, llama_like(), false, 0, "", read_llama},
      {"mistral", kModern, llama_like(), false, 0, "num_key_value_heads", read_mistral},
      {"qwen2", kModern, llama_like(), false, 0, "num_key_value_heads", read_qwen2},
      {"qwen3", kModern, llama_like(), false, 0, "head_dim", read_qwen3},
      {"gemma", kModern, llama_like(), true, 0, "head_dim", read_gemma},
      {"gemma2", kModern, llama_like(), true, 0, "head_dim", read_gemma2},
      {"phi3", kModern, llama_like(), false, 0, "", read_mistral},
      {"gpt2", kGpt2, gpt_like(), true, 0.1, "", read_gpt2},
      {"gpt_bigcode", kGpt2, gpt_like(), true, 0.1, "", read_bigcode},
      {"gpt_neo", kGptNeo, gpt_like(), true, 0, "", read_gpt_neo},
      {"gpt_neox", kGptNeoX, gpt_like(), false, 0, "", read_neox},
      {"gptj", kGptJ, gpt_like(), false, 0, "", read_gptj},
      {"opt", kOpt, gpt_like(), true, 0.1, "", read_opt},
      {"falcon", kFalcon, gpt_like(), true, 0, "", read_falcon},
      {"bloom", kBloom, gpt_like(), true, 0, "", read_bloom},
      {"bert", kBert, bert_like(), true, 0.1, "", read_bert},
      {"roberta", kBert, bert_like(), true, 0.1, "", read_roberta},
      {"mixtral", kModern, llama_like(), false, 0, "num_key_value_heads", read_mixtral, true},
      {"qwen2_moe", kModern, llama_like(), false, 0, "num_key_value_heads", read_qwen2_moe, true},
      {"qwen3_moe", kModern, llama_like(), false, 0, "head_dim", read_qwen3_moe, true},
      {"gpt_oss", kModern, llama_like(), false, 0, "head_dim", read_gpt_oss, true},
      {"deepseek", kModern, llama_like(), false, 0, "", read_deepseek, true},
      {"deepseek_v2", kLatent, llama_like(), false, 0, "v_head_dim", read_deepseek_latent, true},
      {"deepseek_v3", kLatent, llama_like(), false, 0, "v_head_dim", read_deepseek_latent, true},
      {"kimi_k2", kLatent, llama_like(), false, 0, "v_head_dim", read_deepseek_latent, true},
      {"glm4_moe", kModern, llama_like(), false, 0, "head_dim", read_glm4_moe, true},
  };
  return table;
}

/// Model types that are known to be of another kind.
struct OtherKind {
  const char* kind;
  std::vector<std::string_view> types;
};

const std::vector<OtherKind>& other_kinds() {
  static const std::vector<OtherKind> table{
      {"a mixture of experts of another design",
       {"dbrx", "llama4", "llama4_text", "phimoe", "olmoe", "granitemoe", "jamba", "arctic",
        "grok-1", "minimax", "switch_transformers", "nllb-moe"}},
      {"an encoder-decoder of another design than t5",
       {"umt5", "longt5", "bart", "mbart", "pegasus", "marian", "m2m_100", "blenderbot", "fsmt",
        "led", "prophetnet", "whisper", "encoder-decoder"}},
  };
  return table;
}

/// Readers of models that are more than one stack.
struct OtherReader {
  const char* type;
  model::Model (*read)(const Config&, const std::string& type, const std::string& name);
};

template <auto kRead>
model::Model read_as(const Config& config, const std::string& type, const std::string& name) {
  return kRead(config, type, name);
}

const std::vector<OtherReader>& other_readers() {
  static const std::vector<OtherReader> table{
      {"t5", read_as<read_t5>},
      {"mt5", read_as<read_t5>},
      {"qwen2_5_omni", read_as<read_omni>},
      {"qwen2_5_omni_thinker", read_as<read_omni>},
      {"UNet2DConditionModel", read_as<read_unet>},
      {"DiTTransformer2DModel", read_as<read_dit>},
      {"Transformer2DModel", read_as<read_dit>},
  };
  return table;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

const Family* find_family(const std::string& type) {
  for (const Family& family : families()) {
    if (type == family.type) return &family;
  }
  return nullptr;
}

[[noreturn]] void refuse(const Field& field, const std::string& type) {
  std::vector<std::string> types = transformer_types();
  for (const OtherReader& reader : other_readers()) types.emplace_back(reader.type);
  for (const OtherKind& other : other_kinds()) {
    if (std::find(other.types.begin(), other.types.end(), type) != other.types.end()) {
      field.fail(util::quoted(type) + " is " + other.kind + "; what can be read: " + joined(types));
    }
  }
  const auto near = util::nearest(type, types);
  field.fail("unknown " + util::quoted(type) +
             (near ? " (did you mean " + util::quoted(*near) + "?)" : "") +
             "; known: " + joined(types));
}

/// A dense family's name on a config that has experts all the same.
void reject_experts(const Config& config, const char* type) {
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    const auto experts = config.find(key);
    if (experts && experts->integer(0, kLargestWidth) > 1) {
      experts->fail("is a mixture of experts, which " + std::string(type) + " models are not");
    }
  }
}

void read_widths(const Config& config, const Family& family, Architecture& a) {
  const Keys& keys = family.keys;
  const auto maybe = [&config](const char* key) {
    return *key == '\0' ? std::nullopt : config.maybe_count(key);
  };
  a.layers = config.count(keys.layers, kMostLayers);
  a.hidden = config.count(keys.hidden);
  a.heads = config.count(keys.heads);
  a.vocab = config.count("vocab_size");
  if (*family.needed != '\0') config.count(family.needed);
  a.kv_heads = maybe(keys.kv_heads).value_or(a.heads);
  a.ffn = keys.ffn_needed ? config.count(keys.ffn) : maybe(keys.ffn).value_or(4 * a.hidden);
  a.max_positions =
      keys.position_table ? config.count(keys.positions) : maybe(keys.positions).value_or(0);
  a.learned_positions = keys.position_table ? a.max_positions : 0;
  const auto head_dim = maybe(keys.head_dim);
  if (!head_dim && a.hidden % a.heads != 0) {
    config.at(keys.heads)
        .fail(std::to_string(a.heads) + " does not divide " + keys.hidden + " (" +
              std::to_string(a.hidden) + ")");
  }
  a.head_dim = head_dim.value_or(a.hidden / a.heads);
}

void check_kv_heads(const Config& config, const Family& family, const Architecture& a) {
  if (a.heads % a.kv_heads == 0) return;
  const char* key = *family.keys.kv_heads != '\0' ? family.keys.kv_heads : "num_kv_heads";
  config.at(key).fail(std::to_string(a.kv_heads) + " does not divide " + family.keys.heads + " (" +
                      std::to_string(a.heads) + ")");
}

double dropout_of(const Config& config, const Family& family) {
  if (*family.keys.dropout == '\0') return 0;
  const auto field = config.find(family.keys.dropout);
  return field ? field->number(1) : family.dropout;
}

std::string name_of(const std::filesystem::path& file) {
  if (file.filename() != "config.json") return file.stem().string();
  return std::filesystem::absolute(file).lexically_normal().parent_path().filename().string();
}

}  // namespace

void set_window(Architecture& a, std::int64_t window, std::int64_t first, std::int64_t period) {
  a.windows.assign(static_cast<std::size_t>(a.layers), 0);
  for (std::int64_t i = first; i < a.layers; ++i) {
    if (period == 0 || (i + 1) % period != 0) a.windows[static_cast<std::size_t>(i)] = window;
  }
}

std::vector<std::string> transformer_types() {
  std::vector<std::string> types;
  for (const Family& family : families()) types.emplace_back(family.type);
  return types;
}

model::Architecture read_transformer(const Config& config, const std::string& type,
                                     const std::string& name) {
  const Family& family = *find_family(type);
  if (!family.experts) reject_experts(config, family.type);
  Architecture a = family.design;
  a.name = name;
  a.family = family.type;
  read_widths(config, family, a);
  a.hidden_dropout = dropout_of(config, family) > 0;
  a.tied_embeddings = config.flag("tie_word_embeddings", family.tied);
  family.read(config, a);
  check_kv_heads(config, family, a);
  return a;
}

std::filesystem::path model_file(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? path / "config.json" : path;
}

model::Model read_model(const std::filesystem::path& path) {
  const std::filesystem::path file = model_file(path);
  return parse_model(read_text(file), file);
}

model::Model parse_model(std::string_view text, const std::filesystem::path& file) {
  const Document document(text, file.string());
  const Config config(document.root());
  // diffusers names the class where transformers names the type
  const auto class_name = config.find("_class_name");
  const Field field = class_name ? *class_name : config.at("model_type");
  const std::string type = field.text();
  if (find_family(type) != nullptr) return read_transformer(config, type, name_of(file));
  for (const OtherReader& reader : other_readers()) {
    if (type == reader.type) return reader.read(config, type, name_of(file));
  }
  refuse(field, type);
}

model::Architecture read_architecture(const std::filesystem::path& path) {
  const model::Model model = read_model(path);
  if (const auto* architecture = std::get_if<Architecture>(&model)) return *architecture;
  throw InvalidInput(path.string() + ": model_type: " + util::quoted(family_of(model)) +
                     " is not a single decoder or encoder");
}

}  // namespace nestplan::io

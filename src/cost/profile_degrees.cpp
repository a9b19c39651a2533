#include "cost/profile_degrees.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>
#include <variant>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/lists.hpp"

namespace nestplan::cost {
namespace {

using model::Architecture;
using model::ContextForm;
using model::EncoderDecoder;
using model::Model;
using model::Multimodal;
using model::UNet;

std::vector<Stack> stacks(const Architecture& a, const ProfileOptions& options) {
  return {{a, options.sequence, ""}};
}

std::vector<Stack> stacks(const EncoderDecoder& model, const ProfileOptions& options) {
  return {{model.encoder, options.sequence, "encoder's "},
          {model.decoder, options.tokens_of("decoder", options.sequence), "decoder's "}};
}

std::vector<Stack> stacks(const Multimodal& model, const ProfileOptions& options) {
  std::vector<Stack> all;
  for (const model::Tower& tower : model.towers) {
    all.push_back(
        {tower.blocks, options.tokens_of(tower.id, tower.tokens), tower.id + " tower's "});
  }
  all.push_back({model.text, options.sequence, ""});
  return all;
}

std::vector<Stack> stacks(const UNet& /*model*/, const ProfileOptions& /*options*/) { return {}; }

std::vector<Stack> stacks(const model::DiffusionTransformer& model,
                          const ProfileOptions& /*options*/) {
  return {{model.blocks, model.tokens(), ""}};
}

/// A U-Net's convolutions are kept whole.
std::string unsplittable(const Model& model, const char* kind, std::int64_t degree) {
  if (!std::holds_alternative<UNet>(model) || degree == 1) return {};
  return fmt::format("{} {} would split convolutions, which are kept whole", kind, degree);
}

std::string indivisible(const char* kind, std::int64_t degree, const std::string& what,
                        std::int64_t size) {
  return fmt::format("{} {} does not divide the {} ({})", kind, degree, what, size);
}

bool has_experts(const Model& model) { return routed_experts(model) > 0; }

std::string without_experts(const char* kind, std::int64_t degree, const Model& model) {
  return fmt::format("{} {} is for experts, and {} has none", kind, degree, name_of(model));
}

std::string tensor_obstacle(const Stack& stack, const ProfileOptions& options, std::int64_t tp) {
  const Architecture& a = stack.a;
  std::vector<std::pair<const char*, std::int64_t>> sizes{
      {"attention heads", a.heads}, {"key-value heads", a.kv_heads}, {"hidden size", a.hidden}};
  if (a.has_plain_mlp()) sizes.emplace_back("MLP width", a.ffn);
  if (a.moe) sizes.emplace_back("shared experts' width", a.moe->shared_ffn);
  if (options.sequence_parallel) sizes.emplace_back("sequence length", stack.tokens);
  for (const auto& [name, size] : sizes) {
    if (size % tp != 0) return indivisible("tp", tp, stack.part + name, size);
  }
  // as MoELayer of NVIDIA/Megatron-LM, megatron/core/transformer/moe/moe_layer.py, has it
  if (a.moe && tp > 1 && !options.sequence_parallel) {
    return fmt::format("tp {} needs sequence parallelism beside experts", tp);
  }
  return {};
}

std::string context_obstacle(const Stack& stack, const ProfileOptions& options, const Degrees& d) {
  const std::string sequence = stack.part + "sequence length";
  if (stack.a.causal && stack.tokens % (2 * d.cp) != 0) {
    return fmt::format("cp {} needs two chunks a device, and {} does not divide the {} ({})", d.cp,
                       2 * d.cp, sequence, stack.tokens);
  }
  if (stack.tokens % d.cp != 0) return indivisible("cp", d.cp, sequence, stack.tokens);
  if (options.sequence_parallel && stack.tokens % (d.cp * d.tp) != 0) {
    return fmt::format("cp {} with tp {} does not divide the {} ({})", d.cp, d.tp, sequence,
                       stack.tokens);
  }
  if (d.context == ContextForm::kRing) return {};
  const std::int64_t heads = stack.a.heads / d.tp;
  if (heads % d.cp != 0) {
    return fmt::format(
        "cp {} as all_to_all does not divide the {}attention heads that tp {} "
        "leaves ({})",
        d.cp, stack.part, d.tp, heads);
  }
  const std::int64_t kv_heads = stack.a.kv_heads / d.tp;
  if (kv_heads % d.cp != 0 && d.cp % kv_heads != 0) {
    return fmt::format(
        "cp {} as all_to_all is neither a divisor nor a multiple of the {}key-value "
        "heads that tp {} leaves ({})",
        d.cp, stack.part, d.tp, kv_heads);
  }
  return {};
}

/// Columns in the making, and why some of them are not.
class Columns {
 public:
  Columns(const Model& model, const ProfileOptions& options) : model_(model), options_(options) {}

  void add_all() {
    for (const std::int64_t tp : util::sorted_unique(options_.tp)) {
      const std::string reason = tensor_parallel_obstacle(model_, options_, tp);
      if (fits(kTensor, tp, reason)) add_contexts({.tp = tp});
    }
  }

  const std::vector<Degrees>& legal() const { return legal_; }
  const std::vector<DroppedDegree>& dropped() const { return dropped_; }

  /// Blames the last kind that was tried: some of every other kind do fit.
  [[noreturn]] void fail() const {
    std::string kind = kTensor;
    for (const char* each : {kTensor, kContext, kExpertTensor, kExpert}) {
      if (!reasons_of(each).empty()) kind = each;
    }
    throw InvalidConfig(
        fmt::format("{}: no degree fits {}: {}", kind, name_of(model_), reasons_of(kind)));
  }

 private:
  static constexpr const char* kTensor = "tp";
  static constexpr const char* kContext = "cp";
  static constexpr const char* kExpertTensor = "etp";
  static constexpr const char* kExpert = "ep";

  std::string reasons_of(const std::string& kind) const {
    std::string reasons;
    for (const DroppedDegree& each : dropped_) {
      if (each.kind == kind) reasons += (reasons.empty() ? "" : "; ") + each.reason;
    }
    return reasons;
  }

  bool fits(const char* kind, std::int64_t degree, const std::string& reason) {
    if (reason.empty()) return true;
    const auto known = [&](const DroppedDegree& each) { return each.reason == reason; };
    if (std::none_of(dropped_.begin(), dropped_.end(), known)) {
      dropped_.push_back({kind, degree, reason});
    }
    return false;
  }

  void add_contexts(Degrees d) {
    for (const std::int64_t cp : util::sorted_unique(options_.cp)) {
      d.cp = cp;
      for (const ContextForm form : util::sorted_unique(options_.context_forms)) {
        d.context = cp == 1 ? ContextForm::kRing : form;
        if (fits(kContext, cp, context_parallel_obstacle(model_, options_, d))) add_experts(d);
        if (cp == 1) break;
      }
    }
  }

  void add_experts(Degrees d) {
    const std::vector<std::int64_t> inherited{d.tp};
    for (const std::int64_t etp :
         util::sorted_unique(options_.etp.empty() ? inherited : options_.etp)) {
      d.etp = etp;
      if (!fits(kExpertTensor, etp, expert_tensor_obstacle(model_, d))) continue;
      if (!has_experts(model_)) d.etp = d.tp;
      for (const std::int64_t ep : util::sorted_unique(options_.ep)) {
        d.ep = ep;
        if (fits(kExpert, ep, expert_parallel_obstacle(model_, d))) add_micro_batches(d);
      }
    }
  }

  void add_micro_batches(Degrees d) {
    for (const std::int64_t micro_batch : util::sorted_unique(options_.micro_batches)) {
      d.micro_batch = micro_batch;
      if (std::find(legal_.begin(), legal_.end(), d) == legal_.end()) legal_.push_back(d);
    }
  }

  const Model& model_;
  const ProfileOptions& options_;
  std::vector<Degrees> legal_;
  std::vector<DroppedDegree> dropped_;
};

/// Takes `prefix` and a positive number off the front of `text`.
std::optional<std::int64_t> take_degree(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = text.substr(prefix.size());
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (error != std::errc{} || value < 1) return std::nullopt;
  text.remove_prefix(prefix.size() + static_cast<std::size_t>(stop - digits.begin()));
  return value;
}

constexpr std::string_view kAllToAll = "a2a";

}  // namespace

std::string strategy_id(const Degrees& d) {
  std::string id = fmt::format("tp{}", d.tp);
  if (d.cp > 1) {
    id += fmt::format("-cp{}{}", d.cp, d.context == ContextForm::kAllToAll ? kAllToAll : "");
  }
  if (d.ep > 1 || d.etp != d.tp) id += fmt::format("-ep{}", d.ep);
  if (d.etp != d.tp) id += fmt::format("-etp{}", d.etp);
  return id + fmt::format("-mb{}", d.micro_batch);
}

std::optional<Degrees> parse_strategy_id(std::string_view id) {
  std::string_view rest = id;
  Degrees d;
  d.tp = take_degree(rest, "tp").value_or(1);
  d.cp = take_degree(rest, "-cp").value_or(1);
  if (d.cp > 1 && rest.starts_with(kAllToAll)) {
    d.context = ContextForm::kAllToAll;
    rest.remove_prefix(kAllToAll.size());
  }
  d.ep = take_degree(rest, "-ep").value_or(1);
  d.etp = take_degree(rest, "-etp").value_or(d.tp);
  d.micro_batch = take_degree(rest, "-mb").value_or(1);
  if (strategy_id(d) != id) return std::nullopt;
  return d;
}

std::vector<Stack> stacks_of(const Model& model, const ProfileOptions& options) {
  return std::visit([&options](const auto& m) { return stacks(m, options); }, model);
}

std::int64_t routed_experts(const Model& model) {
  std::int64_t fewest = 0;
  for (const Stack& stack : stacks_of(model, {})) {
    if (!stack.a.moe) continue;
    fewest = fewest > 0 ? std::min(fewest, stack.a.moe->experts) : stack.a.moe->experts;
  }
  return fewest;
}

std::string tensor_parallel_obstacle(const Model& model, const ProfileOptions& options,
                                     std::int64_t tp) {
  for (const Stack& stack : stacks_of(model, options)) {
    std::string reason = tensor_obstacle(stack, options, tp);
    if (!reason.empty()) return reason;
  }
  return unsplittable(model, "tp", tp);
}

std::string tensor_parallel_obstacle(const Architecture& architecture,
                                     const ProfileOptions& options, std::int64_t tp) {
  return tensor_parallel_obstacle(Model(architecture), options, tp);
}

std::string context_parallel_obstacle(const Model& model, const ProfileOptions& options,
                                      const Degrees& d) {
  if (d.cp == 1) return {};
  if (!options.fused_attention) return fmt::format("cp {} needs fused attention", d.cp);
  for (const Stack& stack : stacks_of(model, options)) {
    std::string reason = context_obstacle(stack, options, d);
    if (!reason.empty()) return reason;
  }
  return unsplittable(model, "cp", d.cp);
}

std::string expert_tensor_obstacle(const Model& model, const Degrees& d) {
  if (!has_experts(model)) {
    return d.etp == 1 || d.etp == d.tp ? "" : without_experts("etp", d.etp, model);
  }
  if (d.tp % d.etp != 0) return fmt::format("etp {} does not divide tp {}", d.etp, d.tp);
  for (const Stack& stack : stacks_of(model, {})) {
    if (!stack.a.moe || stack.a.moe->expert_ffn % d.etp == 0) continue;
    return indivisible("etp", d.etp, stack.part + "experts' width", stack.a.moe->expert_ffn);
  }
  return {};
}

std::string expert_parallel_obstacle(const Model& model, const Degrees& d) {
  if (!has_experts(model)) return d.ep == 1 ? "" : without_experts("ep", d.ep, model);
  for (const Stack& stack : stacks_of(model, {})) {
    if (!stack.a.moe || stack.a.moe->experts % d.ep == 0) continue;
    return indivisible("ep", d.ep, stack.part + "experts", stack.a.moe->experts);
  }
  if (d.ep * d.etp % d.tp == 0) return {};
  return fmt::format(
      "ep {} times etp {} is no multiple of tp {}, whose devices would hold copies of the same "
      "experts",
      d.ep, d.etp, d.tp);
}

std::vector<Degrees> legal_degrees(const Model& model, const ProfileOptions& options,
                                   std::vector<DroppedDegree>* dropped) {
  Columns columns(model, options);
  columns.add_all();
  if (dropped != nullptr) {
    dropped->insert(dropped->end(), columns.dropped().begin(), columns.dropped().end());
  }
  if (columns.legal().empty()) columns.fail();
  return columns.legal();
}

model::Strategy strategy_of(const Model& model, const ProfileOptions& options, const Degrees& d) {
  model::Strategy strategy;
  strategy.id = strategy_id(d);
  strategy.tp = d.tp;
  strategy.sp = options.sequence_parallel ? d.tp : 1;
  strategy.cp = d.cp;
  strategy.context = d.context;
  if (has_experts(model)) {
    strategy.ep = d.ep * d.etp / d.tp;
    strategy.etp = d.etp;
  }
  strategy.micro_batch = d.micro_batch;
  return strategy;
}

}  // namespace nestplan::cost

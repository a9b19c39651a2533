#include "targets/checks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nestplan::targets {
namespace {

/// What sizes of FP8 products are multiples of, 0 for other precisions: 16, or the elements that
/// share a scale in mxfp8 (NVIDIA/TransformerEngine transformer_engine/pytorch/constants.py,
/// MXFP8_BLOCK_SCALING_SIZE).
std::int64_t narrow_multiple(const Candidate& c) {
  if (c.precision == "mxfp8") return 32;
  return c.precision == "fp8" ? 16 : 0;
}

/// Whether both are known and `parts` does not divide `number`.
bool splits_unevenly(std::int64_t number, std::int64_t parts) {
  return known(number, parts) && number % parts != 0;
}

/// KV heads of one tensor-parallel rank: at least one, by replication.
std::int64_t kv_heads_of_rank(const Candidate& c) {
  return std::max<std::int64_t>(1, c.model.kv_heads / std::max<std::int64_t>(1, c.tp));
}

bool trades_heads(const Candidate& c, std::int64_t cp) {
  const std::int64_t tp = std::max<std::int64_t>(1, c.tp);
  if (c.model.heads % (tp * cp) != 0) return false;
  if (c.model.kv_heads == 0) return true;
  const std::int64_t kv_heads = kv_heads_of_rank(c);
  return kv_heads % cp == 0 || cp % kv_heads == 0;
}

std::int64_t tokens_of_rank(const Candidate& c) { return c.model.sequence / c.cp; }

/// What FP8 products split: a width and the parts that tensor parallelism cuts it into.
struct Width {
  const char* name;
  std::int64_t size;
  std::int64_t parts;

  bool odd(std::int64_t multiple) const {
    return known(size, parts) && size % parts == 0 && size / parts % multiple != 0;
  }
};

/// The first width that FP8 cannot take; one without size if there is none.
Width odd_width(const Candidate& c) {
  const std::int64_t etp = c.etp != 0 ? c.etp : c.tp;
  for (const Width& width : {Width{"hidden", c.model.hidden, 1}, Width{"ffn", c.model.ffn, c.tp},
                             Width{"expert ffn", c.model.expert_ffn, etp}}) {
    if (width.odd(narrow_multiple(c))) return width;
  }
  return {"", 0, 0};
}

std::string explain_precision(const Candidate& c) {
  return fmt::format("it does not train in {}; nearest: bf16", c.precision);
}

std::int64_t stages_and_chunks(const Candidate& c) {
  return c.pp * std::max<std::int64_t>(1, c.vpp);
}

}  // namespace

std::string nearest_divisor(std::int64_t value, std::int64_t number) {
  return nearest(value, number, [&](std::int64_t degree) { return number % degree == 0; });
}

std::string nearest_multiple(std::int64_t value, std::int64_t divisor) {
  const std::int64_t below = value / divisor * divisor;
  const std::int64_t above = below + divisor;
  return below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above);
}

std::int64_t copies(const Candidate& c) {
  if (c.dp != 0 || !known(c.devices, c.tp, c.cp, c.pp)) return c.dp;
  const std::int64_t pipeline = c.tp * c.cp * c.pp;
  return c.devices % pipeline == 0 ? c.devices / pipeline : 0;
}

std::int64_t world(const Candidate& c) {
  return known(c.tp, c.cp, c.pp, c.dp) ? c.tp * c.cp * c.pp * c.dp : c.devices;
}

constexpr Check kHeads{[](const Candidate& c) { return splits_unevenly(c.model.heads, c.tp); },
                       [](const Candidate& c) {
                         return fmt::format("{} attention heads over tp {}; nearest: tp {}",
                                            c.model.heads, c.tp,
                                            nearest_divisor(c.tp, c.model.heads));
                       }};

constexpr Check kKvHeads{[](const Candidate& c) { return splits_unevenly(c.model.kv_heads, c.tp); },
                         [](const Candidate& c) {
                           return fmt::format("{} KV heads over tp {}; nearest: tp {}",
                                              c.model.kv_heads, c.tp,
                                              nearest_divisor(c.tp, c.model.kv_heads));
                         }};

constexpr Check kReplicatedKv{
    [](const Candidate& c) {
      return splits_unevenly(c.model.kv_heads, c.tp) && c.tp % c.model.kv_heads != 0;
    },
    [](const Candidate& c) {
      const auto legal = [&](std::int64_t tp) {
        return c.model.kv_heads % tp == 0 || tp % c.model.kv_heads == 0;
      };
      return fmt::format("{} KV heads over tp {}: neither divides the other; nearest: tp {}",
                         c.model.kv_heads, c.tp, nearest(c.tp, c.tp + c.model.kv_heads, legal));
    }};

constexpr Check kFfn{[](const Candidate& c) { return splits_unevenly(c.model.ffn, c.tp); },
                     [](const Candidate& c) {
                       return fmt::format("ffn {} over tp {}; nearest: tp {}", c.model.ffn, c.tp,
                                          nearest_divisor(c.tp, c.model.ffn));
                     }};

constexpr Check kExperts{[](const Candidate& c) { return splits_unevenly(c.model.experts, c.ep); },
                         [](const Candidate& c) {
                           return fmt::format("{} experts over EP {} leave {}; nearest: EP {}",
                                              c.model.experts, c.ep, c.model.experts % c.ep,
                                              nearest_divisor(c.ep, c.model.experts));
                         }};

constexpr Check kExpertsExist{
    [](const Candidate& c) { return c.ep > 1 && c.model.experts == 0 && c.model.hidden != 0; },
    [](const Candidate& c) {
      return fmt::format("EP {} for a model without experts; nearest: EP 1", c.ep);
    }};

constexpr Check kDoubledContext{
    [](const Candidate& c) { return c.cp > 1 && splits_unevenly(c.model.sequence, 2 * c.cp); },
    [](const Candidate& c) {
      return fmt::format("sequence {} in 2·cp = {} parts; nearest: sequence {}", c.model.sequence,
                         2 * c.cp, nearest_multiple(c.model.sequence, 2 * c.cp));
    }};

constexpr Check kSequenceParallel{
    [](const Candidate& c) {
      return c.sequence_parallel == true && known(c.cp, c.tp) &&
             splits_unevenly(c.model.sequence, c.cp * c.tp);
    },
    [](const Candidate& c) {
      return fmt::format("sequence {} over cp {} and tp {}; nearest: sequence {}", c.model.sequence,
                         c.cp, c.tp, nearest_multiple(c.model.sequence, c.cp * c.tp));
    }};

constexpr Check kFp8Sequence{
    [](const Candidate& c) {
      return known(narrow_multiple(c), c.model.sequence, c.cp) && c.model.sequence % c.cp == 0 &&
             tokens_of_rank(c) % narrow_multiple(c) != 0;
    },
    [](const Candidate& c) {
      const std::int64_t multiple = narrow_multiple(c);
      return fmt::format(
          "{} tokens of a sequence on each of cp {} ranks are not a multiple of {}; nearest: {}, "
          "so "
          "pad the sequence from {} to {}",
          tokens_of_rank(c), c.cp, multiple, nearest_multiple(tokens_of_rank(c), multiple),
          c.model.sequence, (tokens_of_rank(c) / multiple + 1) * multiple * c.cp);
    }};

constexpr Check kFp8Widths{
    [](const Candidate& c) { return narrow_multiple(c) != 0 && odd_width(c).size != 0; },
    [](const Candidate& c) {
      const Width width = odd_width(c);
      return fmt::format("{} {} in {} part{} is {} each, not a multiple of {}; nearest: {} {}",
                         width.name, width.size, width.parts, width.parts == 1 ? "" : "s",
                         width.size / width.parts, narrow_multiple(c), width.name,
                         nearest_multiple(width.size, narrow_multiple(c) * width.parts));
    }};

constexpr Check kTradedHeads{
    [](const Candidate& c) {
      return c.cp > 1 && c.context != model::ContextForm::kRing && c.model.heads != 0 &&
             !trades_heads(c, c.cp);
    },
    [](const Candidate& c) {
      return fmt::format(
          "{} heads and {} KV heads over tp {} and all-to-all cp {}; nearest: cp {}", c.model.heads,
          c.model.kv_heads, std::max<std::int64_t>(1, c.tp), c.cp,
          nearest(c.cp, c.model.heads, [&](std::int64_t cp) { return trades_heads(c, cp); }));
    }};

constexpr Check kNoFp16{[](const Candidate& c) { return c.precision == "fp16"; },
                        explain_precision};

constexpr Check kNoFp8{[](const Candidate& c) { return narrow_multiple(c) != 0; },
                       explain_precision};

constexpr Check kNoPredictions{
    [](const Candidate& c) { return has_strategy(c) && c.model.predictions > 0; },
    [](const Candidate& c) {
      return fmt::format("{} module{} of multi-token prediction; nearest: the model without them",
                         c.model.predictions, c.model.predictions == 1 ? "" : "s");
    }};

constexpr Check kBatch{[](const Candidate& c) {
                         const std::int64_t dp = copies(c);
                         return known(dp, c.micro_batch) &&
                                splits_unevenly(c.global_batch, dp * c.micro_batch);
                       },
                       [](const Candidate& c) {
                         const std::int64_t step = copies(c) * c.micro_batch;
                         return fmt::format(
                             "global batch {} is no multiple of micro-batch {} · dp {} = {} ({} "
                             "left over); nearest: {}",
                             c.global_batch, c.micro_batch, copies(c), step, c.global_batch % step,
                             nearest_multiple(c.global_batch, step));
                       }};

constexpr Check kWorld{
    [](const Candidate& c) {
      if (!known(c.devices, c.tp, c.cp, c.pp) || c.per_stage_strategies == true) return false;
      return c.dp == 0 ? c.devices % (c.tp * c.cp * c.pp) != 0 : world(c) > c.devices;
    },
    [](const Candidate& c) {
      const std::int64_t pipeline = c.tp * c.cp * c.pp;
      if (c.dp == 0) {
        return fmt::format("{} devices over tp {} · cp {} · pp {} = {}; nearest: {} devices",
                           c.devices, c.tp, c.cp, c.pp, pipeline,
                           nearest_multiple(c.devices, pipeline));
      }
      const std::int64_t most = c.devices / pipeline;
      return fmt::format("tp {} · cp {} · pp {} · dp {} = {} of {} devices; nearest: {}", c.tp,
                         c.cp, c.pp, c.dp, world(c), c.devices,
                         most > 0 ? fmt::format("dp {}", most) : "smaller tp, cp or pp");
    }};

constexpr Check kChunksNeedStages{[](const Candidate& c) { return c.pp == 1 && c.vpp > 1; },
                                  [](const Candidate& c) {
                                    return fmt::format("vpp {} with pp 1; nearest: vpp 1, or pp 2",
                                                       c.vpp);
                                  }};

constexpr Check kOnly1F1B{
    [](const Candidate& c) { return c.pp > 1 && c.schedule == model::Schedule::kGPipe; },
    [](const Candidate& c) {
      return fmt::format("schedule gpipe over pp {}; nearest: 1f1b", c.pp);
    }};

constexpr Check kEvenLayers{
    [](const Candidate& c) {
      return c.layout == model::StageConstraints::Layout::kEven && known(c.pp) &&
             splits_unevenly(c.model.blocks, stages_and_chunks(c));
    },
    [](const Candidate& c) {
      const std::int64_t chunks = std::max<std::int64_t>(1, c.vpp);
      const auto legal = [&](std::int64_t pp) { return c.model.blocks % (pp * chunks) == 0; };
      return fmt::format("{} layers over pp {} · vpp {} = {}; nearest: pp {}", c.model.blocks, c.pp,
                         chunks, stages_and_chunks(c), nearest(c.pp, c.model.blocks, legal));
    }};

constexpr Check kChain{[](const Candidate& c) { return c.pp > 1 && c.chain == false; },
                       [](const Candidate& c) {
                         return fmt::format("layers with branches over pp {}; nearest: pp 1", c.pp);
                       }};

constexpr Check kOneStrategy{
    [](const Candidate& c) { return c.pp > 1 && c.per_stage_strategies == true; },
    [](const Candidate& c) {
      return fmt::format("the {} stages differ in strategy; nearest: one strategy for all", c.pp);
    }};

constexpr Check kOneRecompute{
    [](const Candidate& c) { return c.pp > 1 && c.per_stage_recompute == true; },
    [](const Candidate& c) {
      return fmt::format("the {} stages differ in recomputation; nearest: one mode for all", c.pp);
    }};

constexpr Check kOneZero{[](const Candidate& c) { return c.pp > 1 && c.per_stage_zero == true; },
                         [](const Candidate& c) {
                           return fmt::format(
                               "the {} stages differ in ZeRO; nearest: one stage for all", c.pp);
                         }};

constexpr Check kPipelineZero{
    [](const Candidate& c) { return c.pp > 1 && c.zero.value_or(0) >= 2; },
    [](const Candidate& c) {
      return fmt::format("ZeRO {} with pp {}; nearest: ZeRO 1, or pp 1", *c.zero, c.pp);
    }};

}  // namespace nestplan::targets

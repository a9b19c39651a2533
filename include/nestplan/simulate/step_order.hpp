#pragma once

#include <cstdint>

#include "nestplan/model/plan.hpp"

namespace nestplan::simulate {

/// One pass of one micro-batch through one chunk of a stage.
struct Step {
  enum class Kind : std::uint8_t { kForward, kBackward };
  Kind kind = Kind::kForward;
  std::int64_t chunk = 0;
  std::int64_t turn = 0;  ///< how many of this kind and chunk come before it
  std::int64_t microbatch = 0;
  bool operator==(const Step&) const = default;
};

/// The steps of one stage in the order in which it takes them; nothing is stored, any step is found
/// in O(1).
///
/// - `1f1b`, one chunk: stage `i` of `p` (from 1) starts with `min(p - i, m)` forward steps, then
///   alternates, a forward step first, and ends with the backward steps that are left (Narayanan et
///   al., PipeDream, SOSP 2019; as PipeDream-Flush in Narayanan et al., arXiv 2104.04473, fig. 4).
/// - `1f1b` with `v > 1` chunks: the same with `min(2·(p - i) + (v - 1)·p, m·v)` forward steps at
///   the start. Forward steps take `p` micro-batches through the first chunk, the same ones through
///   the next and so on, then the next `p`; backward steps likewise from the last chunk on (arXiv
///   2104.04473, section 2.2; the counts are those of Megatron-LM, `schedules.py`). `m` is a
///   multiple of `p`.
/// - `gpipe`: all forward steps, then all backward steps from the last micro-batch to the first
///   (Huang et al., arXiv 1811.06965, fig. 2).
class StepOrder {
 public:
  /// `stage` counts from 0.
  StepOrder(model::Schedule schedule, std::int64_t stages, std::int64_t chunks,
            std::int64_t microbatches, std::int64_t stage);

  std::int64_t size() const { return 2 * passes_; }
  Step operator[](std::int64_t index) const;

 private:
  Step forward(std::int64_t pass) const;
  Step backward(std::int64_t pass) const;

  bool reversed_;  ///< backward steps take the micro-batches from the last one on
  std::int64_t stages_;
  std::int64_t chunks_;
  std::int64_t microbatches_;
  std::int64_t passes_;  ///< forward steps, and as many backward ones
  std::int64_t warm_up_;
};

}  // namespace nestplan::simulate

#include "nestplan/simulate/step_order.hpp"

#include <algorithm>

namespace nestplan::simulate {

StepOrder::StepOrder(model::Schedule schedule, std::int64_t stages, std::int64_t chunks,
                     std::int64_t microbatches, std::int64_t stage)
    : reversed_(schedule == model::Schedule::kGPipe),
      stages_(stages),
      chunks_(chunks),
      microbatches_(microbatches),
      passes_(chunks * microbatches),
      warm_up_(passes_) {
  if (schedule == model::Schedule::kGPipe) return;
  const std::int64_t behind = stages - 1 - stage;
  warm_up_ = std::min(passes_, chunks == 1 ? behind : 2 * behind + (chunks - 1) * stages);
}

Step StepOrder::operator[](std::int64_t index) const {
  if (index < warm_up_) return forward(index);
  const std::int64_t after = index - warm_up_;
  const std::int64_t steady = passes_ - warm_up_;
  if (after >= 2 * steady) return backward(after - steady);
  return after % 2 == 0 ? forward(warm_up_ + after / 2) : backward(after / 2);
}

Step StepOrder::forward(std::int64_t pass) const {
  const std::int64_t round = stages_ * chunks_;
  if (chunks_ == 1) return {Step::Kind::kForward, 0, pass, pass};
  const std::int64_t microbatch = pass / round * stages_ + pass % stages_;
  return {Step::Kind::kForward, pass % round / stages_, microbatch, microbatch};
}

Step StepOrder::backward(std::int64_t pass) const {
  Step step = forward(pass);
  step.kind = Step::Kind::kBackward;
  step.chunk = chunks_ - 1 - step.chunk;
  if (reversed_) step.microbatch = microbatches_ - 1 - step.turn;
  return step;
}

}  // namespace nestplan::simulate

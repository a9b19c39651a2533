#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "nestplan/simulate/pipeline.hpp"

namespace nestplan::testing {

/// A pipeline without transfers, of steps (forward, backward) by part.
inline simulate::Pipeline line(std::int64_t stages, std::int64_t microbatches,
                               const std::vector<std::pair<double, double>>& steps,
                               model::Schedule schedule = model::Schedule::k1F1B) {
  simulate::Pipeline pipeline;
  pipeline.schedule = schedule;
  pipeline.stages = stages;
  pipeline.chunks = static_cast<std::int64_t>(steps.size()) / stages;
  pipeline.microbatches = microbatches;
  for (const auto& [forward, backward] : steps) pipeline.work.push_back({forward, backward});
  pipeline.kinds.resize(1);
  pipeline.kinds[0].forward.resize(steps.size());
  pipeline.kinds[0].gradient.resize(steps.size());
  pipeline.sync_s.assign(static_cast<std::size_t>(stages), 0);
  pipeline.update_s = pipeline.sync_s;
  pipeline.tie_s.assign(static_cast<std::size_t>(stages), 0);
  return pipeline;
}

}  // namespace nestplan::testing

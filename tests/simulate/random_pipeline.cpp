#include "simulate/random_pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "simulate/line.hpp"

namespace nestplan::testing {
namespace {

using simulate::Step;

double seconds(Dice& dice) { return static_cast<double>(dice.between(0, 1000)) / 1000; }

}  // namespace

simulate::Pipeline random_pipeline(Dice& dice, bool balanced) {
  const std::int64_t stages = dice.between(1, 6);
  const bool gpipe = dice.chance(30);
  const std::int64_t chunks = gpipe || stages == 1 ? 1 : dice.between(1, 3);
  const std::int64_t microbatches = chunks > 1 ? stages * dice.between(1, 4) : dice.between(1, 12);
  const double forward = 0.2 + seconds(dice);
  const double backward = forward + seconds(dice);
  const auto nearly = [&](double each) { return each * (1 + 1e-4 * seconds(dice)); };
  std::vector<std::pair<double, double>> steps;
  for (std::int64_t part = 0; part < stages * chunks; ++part) {
    if (balanced) {
      steps.emplace_back(nearly(forward), nearly(backward));
    } else {
      steps.emplace_back(seconds(dice), seconds(dice));
    }
  }
  simulate::Pipeline pipeline =
      line(stages, microbatches, steps, gpipe ? model::Schedule::kGPipe : model::Schedule::k1F1B);
  simulate::PodKind& kind = pipeline.kinds.front();
  const std::int64_t links = dice.between(0, 4);
  for (std::int64_t link = 0; link < links; ++link) kind.links.push_back({0.5 + seconds(dice), 1});
  const bool transfers = dice.chance(70);
  for (std::int64_t part = 1; part < pipeline.parts() && transfers; ++part) {
    for (simulate::Transfer* transfer : {&kind.forward[static_cast<std::size_t>(part)],
                                         &kind.gradient[static_cast<std::size_t>(part - 1)]}) {
      transfer->rate = 0.5 + seconds(dice);
      transfer->latency_s = dice.chance(50) ? 0 : 1e-3;
      transfer->device_bytes = (balanced ? 1e-5 : 1) * seconds(dice);
      transfer->seconds =
          transfer->device_bytes / transfer->rate + (balanced ? 0 : transfer->latency_s);
      if (balanced) transfer->latency_s = 0;
      for (std::int64_t link = 0; link < links; ++link) {
        if (dice.chance(40)) transfer->uses.push_back({link, 0.5 + seconds(dice)});
      }
    }
  }
  if (chunks > 1 && dice.chance(50)) pipeline.transfer_overlap = dice.pick<double>({0.25, 0.5, 1});
  for (double& sync : pipeline.sync_s) sync = dice.chance(50) ? 0 : seconds(dice);
  return pipeline;
}

std::vector<double> longest_paths(const simulate::Pipeline& pipeline) {
  const simulate::PodKind& kind = pipeline.kinds.front();
  const std::int64_t p = pipeline.stages;
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, double>
      ends;  // forward, part, micro-batch
  std::vector<std::int64_t> next(static_cast<std::size_t>(p), 0);
  std::vector<double> free(static_cast<std::size_t>(p), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int64_t stage = 0; stage < p; ++stage) {
      const simulate::StepOrder order(pipeline.schedule, p, pipeline.chunks, pipeline.microbatches,
                                      stage);
      auto& index = next[static_cast<std::size_t>(stage)];
      if (index == order.size()) continue;
      const Step step = order[index];
      const bool forward = step.kind == Step::Kind::kForward;
      const std::int64_t part = step.chunk * p + stage;
      const bool source = forward ? part == 0 : part + 1 == pipeline.parts();
      const auto input = ends.find({forward, forward ? part - 1 : part + 1, step.microbatch});
      if (!source && input == ends.end()) continue;
      const auto at = static_cast<std::size_t>(part);
      const double work = forward ? kind.forward[at].seconds + pipeline.work[at].forward_s
                                  : kind.gradient[at].seconds + pipeline.work[at].backward_s;
      double& end = free[static_cast<std::size_t>(stage)];
      end = std::max(end, source ? 0 : input->second) + work;
      ends[{forward, part, step.microbatch}] = end;
      ++index;
      moved = true;
    }
  }
  return free;
}

}  // namespace nestplan::testing

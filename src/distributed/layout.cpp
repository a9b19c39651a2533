#include "distributed/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>

namespace nestplan::distributed {
namespace {

/// Bytes of a table from which its waves may be worth a message.
constexpr double kLargeTable = 16.0 * 1024 * 1024;

/// Configurations that are looked at for the size of a table: those that come first.
constexpr std::size_t kSample = 8;

/// How far the first plan of a search may be from the bounds.
constexpr double kSlack = 1.25;

/// What a table takes that is filled when a plan is known, of one that is not.
constexpr double kLater = 0.1;

/// Downsets that the walks of an estimate start from.
constexpr std::int64_t kWalks = 512;

std::array<int, 3> three_numbers(const std::string& text) {
  std::array<int, 3> numbers{};
  const char* next = text.data();
  const char* end = next + text.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto [stop, error] = std::from_chars(next, end, numbers[i]);
    const bool last = i + 1 == numbers.size();
    if (error != std::errc{} || numbers[i] < 1 || (last ? stop != end : *stop != 'x')) {
      throw InvalidConfig(fmt::format(
          "--grid: \"{}\" is not three positive numbers like 2x3x1 (groups x downsets x stages)",
          text));
    }
    next = stop + 1;
  }
  return numbers;
}

/// Bytes of the unpruned table of one configuration; interleaving needs none.
double table_bytes(const solver::Instance& instance, const solver::Configuration& configuration) {
  if (configuration.vpp > 1) return 0;
  std::int64_t smallest = configuration.pods.pod_size;
  for (const int k : configuration.strategies) {
    smallest =
        std::min(smallest, configuration.unit(instance.strategies()[solver::at(k)].strategy));
  }
  const auto positions = static_cast<double>(configuration.pods.pod_size / smallest);
  return sizeof(solver::Ticks) * static_cast<double>(instance.lattice().size()) *
         static_cast<double>(configuration.max_depth) * positions;
}

/// A layout with what is predicted of it.
struct Candidate {
  RankLayout layout;
  double seconds = 0;
  double bytes = 0;     ///< of the fullest rank, as predicted
  double unpruned = 0;  ///< the same without pruning
};

/// Every layout of `ranks` with at most so many groups and blocks of depths.
std::vector<RankLayout> layouts(int ranks, double most_groups, std::int64_t most_blocks) {
  std::vector<RankLayout> result;
  for (int groups = ranks; groups >= 1; --groups) {
    if (ranks % groups != 0 || (groups > 1 && groups > most_groups)) continue;
    const int team = ranks / groups;
    for (int blocks = 1; blocks <= team && blocks <= std::max<std::int64_t>(1, most_blocks);
         ++blocks) {
      if (team % blocks == 0) result.push_back({groups, {team / blocks, blocks}});
    }
  }
  return result;
}

/// Keeps those that have the memory, or else those that need least of it.
void keep_what_fits(std::vector<Candidate>& candidates, double bytes_per_rank) {
  const auto keep = [&](double Candidate::*need, double limit) {
    std::vector<Candidate> kept;
    for (const Candidate& candidate : candidates) {
      if (candidate.*need <= limit) kept.push_back(candidate);
    }
    if (kept.empty()) return false;
    candidates = std::move(kept);
    return true;
  };
  if (keep(&Candidate::unpruned, bytes_per_rank)) return;
  if (keep(&Candidate::bytes, bytes_per_rank)) return;
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) least = std::min(least, candidate.bytes);
  keep(&Candidate::bytes, least);
}

}  // namespace

RankLayout parse_layout(const std::string& text, int ranks) {
  const auto [groups, downsets, stages] = three_numbers(text);
  const std::int64_t product = std::int64_t{groups} * downsets * stages;
  if (product != ranks) {
    throw InvalidConfig(
        fmt::format("--grid: {} is {} ranks, but there are {}", text, product, ranks));
  }
  return {groups, {downsets, stages}};
}

TableSummary estimate_table(const solver::Instance& instance,
                            const solver::Configuration& configuration,
                            const solver::Floor& floor) {
  const solver::DepthBounds bounds(instance, configuration, floor);
  const std::vector<std::int64_t> all = solver::ConfigurationSpace(instance).depths(configuration);
  double best = std::numeric_limits<double>::infinity();
  for (const std::int64_t p : all) {
    best = std::min(best, static_cast<double>(bounds.at_depth(p).total));
  }
  std::vector<std::int64_t> depths;
  solver::TableLimits limits{0, solver::kNever, true};
  for (const std::int64_t p : all) {
    const solver::DepthBound bound = bounds.at_depth(p);
    if (static_cast<double>(bound.total) > kSlack * best) continue;
    depths.push_back(p);
    limits.stage = std::max(limits.stage, kSlack * bound.bottleneck);
  }
  solver::ClassCache classes(instance);
  const solver::Placement placement(instance, configuration, classes);
  const solver::PortLayers layers(instance, placement, depths);
  return summarise(instance, placement, layers, depths, limits, kWalks);
}

RankLayout choose_layout(const solver::Instance& instance, int ranks, double bytes_per_rank,
                         const Machine& machine) {
  if (ranks == 1) return {};
  solver::ConfigurationSpace space(instance);
  const std::vector<solver::Configuration> configurations = space.list();
  const auto count = std::max(1.0, static_cast<double>(configurations.size()));
  const solver::Configuration* largest = nullptr;
  double unpruned = 0;
  for (std::size_t i = 0; i < std::min(kSample, configurations.size()); ++i) {
    const double bytes = table_bytes(instance, configurations[i]);
    if (bytes <= unpruned) continue;
    unpruned = bytes;
    largest = &configurations[i];
  }
  if (largest == nullptr || (unpruned < kLargeTable && unpruned <= bytes_per_rank)) {
    return layouts(ranks, count, 1).front();
  }
  const TableSummary table = estimate_table(instance, *largest, space.floor(*largest));
  std::vector<Candidate> candidates;
  for (const RankLayout& layout : layouts(ranks, count, table.depths)) {
    const Prediction one = predict(table, layout.team, machine);
    const double others = (count - 1) * kLater / layout.groups;
    const double bounding = count * machine.configuration_s / layout.groups;
    candidates.push_back({layout, one.seconds * (1 + others) + bounding, one.bytes,
                          unpruned / layout.team.size() + one.bytes_under_way});
  }
  keep_what_fits(candidates, bytes_per_rank);
  // The order of the candidates settles ties.
  return std::min_element(
             candidates.begin(), candidates.end(),
             [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; })
      ->layout;
}

namespace {

/// Bytes that the control group of this process still allows; infinite without a limit.
double cgroup_room() {
  double limit = 0;
  double used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit &&
      std::ifstream("/sys/fs/cgroup/memory.current") >> used) {
    return std::max(0.0, limit - used);
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

double memory_per_rank(const mpi::Comm* world) {
  std::ifstream info("/proc/meminfo");
  std::string key, unit;
  double kibibytes = 0;
  double available = std::numeric_limits<double>::infinity();
  while (info >> key >> kibibytes >> unit) {
    if (key == "MemAvailable:") available = kibibytes * 1024;
  }
  available = std::min(available, cgroup_room());
  return world == nullptr ? available : world->min(available / world->split_by_node().size());
}

}  // namespace nestplan::distributed

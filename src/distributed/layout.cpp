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

/// Bytes of a table from which filling it takes seconds, and its waves are worth a message.
constexpr double kLargeTable = 128.0 * 1024 * 1024;

/// Configurations that are looked at for the size of a table: those that come first.
constexpr std::size_t kSample = 8;

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

/// Bytes of the unpruned table of one configuration.
double table_bytes(const solver::Instance& instance, const solver::Configuration& configuration) {
  std::int64_t smallest = configuration.pods.pod_size;
  for (const int k : configuration.strategies) {
    smallest =
        std::min(smallest, configuration.unit(instance.strategies()[solver::at(k)].strategy));
  }
  const auto positions = static_cast<double>(configuration.pods.pod_size / smallest);
  return sizeof(solver::Ticks) * static_cast<double>(instance.lattice().size()) *
         static_cast<double>(configuration.max_depth) * positions;
}

int largest_divisor_up_to(int number, double most) {
  for (int d = number; d > 1; --d) {
    if (number % d == 0 && d <= most) return d;
  }
  return 1;
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

RankLayout choose_layout(const solver::Instance& instance, int ranks, double bytes_per_rank) {
  const std::vector<solver::Configuration> configurations =
      solver::ConfigurationSpace(instance).list();
  double largest = 0;
  for (std::size_t i = 0; i < std::min(kSample, configurations.size()); ++i) {
    largest = std::max(largest, table_bytes(instance, configurations[i]));
  }
  const solver::Lattice& lattice = instance.lattice();
  int team = 1;
  if (!lattice.totally_ordered() && largest >= kLargeTable) {
    team = ranks;
  } else {
    while (team < ranks && (ranks % team != 0 || largest / team > bytes_per_rank)) ++team;
  }
  // Idle groups are no use: fewer configurations than groups make larger teams.
  while (team < ranks && ranks / team > static_cast<int>(configurations.size())) ++team;
  while (ranks % team != 0) ++team;
  const double wave = static_cast<double>(lattice.size()) / lattice.layers();
  const int downsets = largest_divisor_up_to(team, std::max(1.0, wave));
  return {ranks / team, {downsets, team / downsets}};
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

#include "bench/machine_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "bench/instances.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "solver/kernels.hpp"
#include "solver/stage_pricer.hpp"

namespace nestplan::bench {
namespace {

using distributed::LogGP;
using distributed::Machine;
using solver::at;
using solver::DownsetId;
using solver::Ticks;
using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 7;

/// Least seconds of several runs of `work`.
template <typename Work>
double least_seconds(const mpi::Comm& world, Work&& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    world.max(std::int64_t{0});  // together
    const auto start = Clock::now();
    work();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return world.max(least);
}

/// Keeps the compiler from dropping what `value` was computed for.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

/// Seconds that this process had a core for.
double cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// What a run of cells costs besides its cells: runs of 1 to 15 cells anywhere in 1 MiB, against
/// the cells of long ones.
void measure_segments(const mpi::Comm& world, Machine& machine) {
  constexpr std::int64_t kTable = std::int64_t{1} << 17;
  constexpr std::int64_t kLong = 512;
  constexpr int kRuns = 20000;
  std::vector<Ticks> table(at(kTable), 1e9);
  const std::vector<Ticks> next(at(kLong), 5e8);
  std::mt19937_64 random(1);
  std::vector<std::pair<std::int64_t, std::int64_t>> runs(kRuns);
  double cells = 0;
  for (auto& [where, length] : runs) {
    where = static_cast<std::int64_t>(random() % (kTable - kLong));
    length = static_cast<std::int64_t>(random() % 15) + 1;
    cells += static_cast<double>(length);
  }
  const auto seconds = [&](std::int64_t fixed) {
    return least_seconds(world, [&] {
      for (const auto& [where, length] : runs) {
        solver::relax_bottleneck(table.data() + where, next.data(), 4e8,
                                 fixed > 0 ? fixed : length);
        keep(table.data());
      }
    });
  };
  const double of_cells = seconds(kLong) * cells / (kRuns * static_cast<double>(kLong));
  machine.segment_s = std::max(0.0, seconds(0) - of_cells) / kRuns;
}

/// Every rank fills the table for some seconds of its own, all at once: what is not explained by
/// the other constants is the cells'. In rows all over a table that is far larger than any cache,
/// they take several times what they do in a cache.
void measure_cells(const FirstTable& first, const mpi::Comm& world, Machine& machine) {
  constexpr double kSeconds = 4;
  machine.cell_s = 0;
  solver::SoloTeam team;
  solver::Table table = first.make(team);
  const double begin = cpu_s();
  table.fill([&] { return cpu_s() - begin > kSeconds; });
  const double spent = cpu_s() - begin;
  distributed::TableSummary summary = first.summary_until(table.next());
  const auto relaxed = static_cast<double>(table.relaxations());
  summary.scale_pushes(relaxed / std::max(1.0, summary.relaxed()));
  const double others = distributed::predict(summary, {1, 1}, machine).seconds;
  machine.cell_s = world.max(std::max(0.0, spent - others) / std::max(1.0, relaxed));
}

/// A row moved to where the stages before it look for it: cleared, relaxed, and searched.
void measure_preparation(const mpi::Comm& world, Machine& machine) {
  constexpr std::int64_t kRow = 256;
  constexpr int kRuns = 20000;
  const std::vector<Ticks> row(kRow, 5e8);
  std::vector<Ticks> offers(kRow);
  Ticks least = 0;
  machine.prepared_cell_s = least_seconds(world,
                                          [&] {
                                            for (int i = 0; i < kRuns; ++i) {
                                              offers.assign(kRow, solver::kNever);
                                              solver::relax(offers.data(), row.data(), kRow);
                                              least =
                                                  *std::min_element(offers.begin(), offers.end());
                                              keep(least);
                                            }
                                          }) /
                            (kRuns * static_cast<double>(kRow));
}

/// Stages above a few hundred downsets: met on a walk, and priced.
void measure_stages(const FirstTable& table, const mpi::Comm& world, Machine& machine) {
  const solver::Instance& instance = table.instance();
  const solver::Lattice& lattice = instance.lattice();
  const std::vector<Ticks>& floor = table.placement().floor_sums();
  const Ticks cap = table.request().limits.stage;
  std::vector<std::pair<DownsetId, DownsetId>> stages;
  std::vector<std::uint32_t> seen(at(lattice.size()), 0);
  std::vector<DownsetId> frontier;
  std::uint32_t walk = 0;
  std::int64_t met = 0;
  const auto walk_all = [&](bool keep_stages) {
    met = 0;
    for (DownsetId inner = 1; inner < lattice.whole(); inner += std::max(1, lattice.size() / 256)) {
      ++walk;
      frontier.assign(1, inner);
      for (std::size_t i = 0; i < frontier.size(); ++i) {
        for (const DownsetId outer : lattice.above(frontier[i])) {
          ++met;
          if (outer >= lattice.whole() || seen[at(outer)] == walk) continue;
          seen[at(outer)] = walk;
          if (floor[at(outer)] - floor[at(inner)] > cap) continue;
          frontier.push_back(outer);
          if (keep_stages) stages.emplace_back(inner, outer);
        }
      }
    }
  };
  walk_all(true);
  const double seconds = least_seconds(world, [&] { walk_all(false); });
  machine.step_s = seconds / static_cast<double>(std::max<std::int64_t>(1, met));

  solver::StagePricer pricer(instance, table.placement(), 0);
  const int classes = static_cast<int>(table.placement().classes(0).size());
  const double priced = least_seconds(world, [&] {
    for (const auto& [inner, outer] : stages) {
      if (!pricer.load(outer, inner)) continue;
      if (pricer.decide(2) == solver::StagePricer::Decision::kNone) continue;
      for (int c = 0; c < classes; ++c) keep(pricer.least_time(c));
    }
  });
  machine.price_s = priced / static_cast<double>(std::max<std::size_t>(1, stages.size()));
}

/// A search that lists and bounds many configurations and fills small tables.
void measure_configurations(Machine& machine) {
  model::Problem problem = named_instance("llama-405b-uniform");
  problem.options.micro_batches = {1};
  problem.options.allow_uneven_batch = false;
  const auto network = network::make_network(problem.cluster);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const model::Plan plan = solver::solve(problem, *network);
    least = std::min(least, plan.search.seconds / static_cast<double>(std::max<std::int64_t>(
                                                      1, plan.search.configurations)));
  }
  machine.configuration_s = least;
}

/// Half of a round trip between the first two ranks.
double half_trip_s(const mpi::Comm& world, std::size_t doubles) {
  constexpr int kTrips = 200;
  const std::vector<double> out(doubles, 1);
  std::vector<double> in(doubles);
  const int other = 1 - world.rank();
  return least_seconds(world,
                       [&] {
                         if (world.rank() > 1) return;
                         for (int i = 0; i < kTrips; ++i) {
                           if (world.rank() == 0)
                             world.send_doubles(out, other, mpi::Tag::kBand).wait();
                           world.receive_doubles(in, other, mpi::Tag::kBand).wait();
                           if (world.rank() == 1)
                             world.send_doubles(out, other, mpi::Tag::kBand).wait();
                         }
                       }) /
         (2 * kTrips);
}

/// A gather of `doubles` from every rank.
double gather_s(const mpi::Comm& world, int doubles) {
  constexpr int kGathers = 50;
  const int ranks = world.size();
  const std::vector<int> counts(at(ranks), doubles);
  std::vector<int> offsets(at(ranks), 0);
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  const std::vector<double> mine(at(doubles), 1);
  std::vector<double> all(at(std::int64_t{ranks} * doubles));
  return least_seconds(world,
                       [&] {
                         for (int i = 0; i < kGathers; ++i) {
                           world.all_gather_doubles(mine, counts, offsets, all.data()).wait();
                         }
                       }) /
         kGathers;
}

/// `L + 2o` from ping-pong, `o` from what a gather takes beyond `L` for each message, `G` from
/// large gathers.
LogGP measure_messages(const mpi::Comm& world) {
  const double half_trip = half_trip_s(world, 1);
  const double small = gather_s(world, 1);
  constexpr int kLarge = 1 << 17;
  const double large = gather_s(world, kLarge);
  const double others = world.size() - 1;
  LogGP link;
  // small = L + 2·others·o and half_trip = L + 2o; with two ranks they say the same, so that `o` is
  // taken as a quarter of it.
  link.overhead_s = others > 1 ? std::max(0.0, (small - half_trip) / (2 * (others - 1)))
                               : std::min(small, half_trip) / 4;
  link.latency_s = std::max(0.0, half_trip - 2 * link.overhead_s);
  link.gap_s_per_byte = std::max(0.0, (large - small) / (others * kLarge * sizeof(double)));
  return link;
}

}  // namespace

Machine measure_machine(const FirstTable& table, const mpi::Comm& world) {
  Machine machine = distributed::measured_machine();
  measure_segments(world, machine);
  measure_preparation(world, machine);
  measure_stages(table, world, machine);
  measure_cells(table, world, machine);
  measure_configurations(machine);
  machine.configuration_s = world.max(machine.configuration_s);
  if (world.size() > 1) machine.within = measure_messages(world);
  return machine;
}

}  // namespace nestplan::bench

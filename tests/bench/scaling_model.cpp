// The performance model of `src/distributed/performance.hpp` against measurements.
//
//   mpirun -n R scaling_model measure            constants of this machine: "name value" a line
//   mpirun -n R scaling_model check [OPTIONS]    a table filled by R ranks, measured and predicted
//   scaling_model predict [OPTIONS]              strong and weak scaling
//   scaling_model layout [OPTIONS]               groups and grids that a search chooses
//
//   --instance NAME    see tests/bench/instances.hpp (default omni-block)
//   --machine FILE     constants, as `measure` prints them (default: those of the header)
//   --cores N          cores that the ranks share (check: default what the machine has)
//   --grid DxS         check: only this grid (default: all of R ranks)
//   --seconds S        check: stop after so long and compare with the part that was done
//   --walks N          downsets to walk up from (default: all)
//   --pushes F         predict: the share of what is counted that finds something alive, which
//                      check prints (default 1)
//   --ranks LIST       predict, layout: rank counts, with commas (default: powers of two to 4,096)
//   --brief 1          predict: a line "ranks efficiency" each of strong scaling and no more
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "bench/first_table.hpp"
#include "bench/instances.hpp"
#include "bench/machine_bench.hpp"
#include "distributed/layout.hpp"
#include "distributed/mpi_team.hpp"
#include "nestplan/distributed/solve.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::bench {
namespace {

using distributed::Machine;
using distributed::Prediction;
using distributed::TableSummary;
using solver::Grid;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string command;
  std::string instance = "omni-block";
  std::string machine;
  std::string grid;
  int cores = -1;
  double seconds = std::numeric_limits<double>::infinity();
  std::int64_t walks = std::numeric_limits<std::int32_t>::max();
  double pushes = 1;
  std::vector<int> ranks{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  bool brief = false;
};

template <typename Number>
Number number(const std::string& text) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size()) {
    throw InvalidConfig("\"" + text + "\" is not a number");
  }
  return value;
}

std::vector<int> numbers(std::string text) {
  std::vector<int> result;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) result.push_back(number<int>(text.substr(0, comma)));
    text.erase(0, comma + 1);
  }
  return result;
}

Options parse(std::span<char*> arguments) {
  Options options;
  if (arguments.size() < 2) throw InvalidConfig("measure, check or predict?");
  options.command = arguments[1];
  for (std::size_t i = 2; i < arguments.size(); i += 2) {
    const std::string flag = arguments[i];
    if (i + 1 == arguments.size()) throw InvalidConfig(flag + " needs a value");
    const std::string value = arguments[i + 1];
    if (flag == "--instance") {
      options.instance = value;
    } else if (flag == "--machine") {
      options.machine = value;
    } else if (flag == "--grid") {
      options.grid = value;
    } else if (flag == "--cores") {
      options.cores = number<int>(value);
    } else if (flag == "--seconds") {
      options.seconds = number<double>(value);
    } else if (flag == "--walks") {
      options.walks = number<std::int64_t>(value);
    } else if (flag == "--pushes") {
      options.pushes = number<double>(value);
    } else if (flag == "--ranks") {
      options.ranks = numbers(value);
    } else if (flag == "--brief") {
      options.brief = value != "0";
    } else {
      throw InvalidConfig("unknown flag " + flag);
    }
  }
  return options;
}

Machine machine_of(const Options& options, const Machine& fallback) {
  if (options.machine.empty()) return fallback;
  std::ifstream in(options.machine);
  if (!in) throw InvalidInput(options.machine + ": cannot be read");
  return distributed::read_machine(in);
}

/// What the rungs below know, found by the first rank.
solver::Total known_by_all(const model::Problem& problem, const network::Network& network,
                           const mpi::Comm& world) {
  solver::Total known = world.rank() == 0 ? known_before(problem, network) : 0;
  world.broadcast(std::as_writable_bytes(std::span(&known, 1)), 0);
  return known;
}

/// Seconds that this process had a core for.
double cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Measured {
  double seconds = 0;
  double cpu_s = 0;    ///< of all ranks
  double relaxed = 0;  ///< by all ranks
  double cells = 0;    ///< held by all ranks
  double waited_s = 0;
  double sent_bytes = 0;
  solver::DownsetId next = 0;
};

Measured fill(const FirstTable& first, const mpi::Comm& world, Grid grid, double limit_s) {
  distributed::MpiTeam team(world.split(0, world.rank()), grid, {});
  solver::SoloTeam alone;
  solver::Team& filled_by = grid.size() == 1 ? static_cast<solver::Team&>(alone) : team;
  solver::Table table = first.make(filled_by);
  world.max(std::int64_t{0});
  const auto start = Clock::now();
  const double cpu = cpu_s();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  table.fill([&] { return spent() > limit_s; });
  Measured result;
  result.seconds = spent();
  result.cpu_s = world.sum(cpu_s() - cpu);
  result.seconds = world.max(result.seconds);
  result.relaxed = world.sum(static_cast<double>(table.relaxations()));
  result.cells = world.sum(static_cast<double>(table.cells()));
  result.waited_s = world.sum(team.waited_s()) / world.size();
  result.sent_bytes = world.sum(team.sent_bytes());
  result.next = table.next();
  return result;
}

std::vector<Grid> grids(const Options& options, int ranks) {
  std::vector<Grid> result;
  for (int downsets = ranks; downsets >= 1; --downsets) {
    if (ranks % downsets != 0) continue;
    const Grid grid{downsets, ranks / downsets};
    const std::string name = fmt::format("{}x{}", grid.downsets, grid.stages);
    if (options.grid.empty() || options.grid == name) result.push_back(grid);
  }
  if (result.empty()) throw InvalidConfig("--grid " + options.grid + ": not of so many ranks");
  return result;
}

void print_parts(const Prediction& p) {
  fmt::print(" {:>9.3g} {:>9.3g} {:>9.3g} {:>9.3g} {:>9.1f}\n", p.work_s, p.redundant_s, p.gather_s,
             p.uneven_s, p.bytes / 1e6);
}

int check(const Options& options, const mpi::Comm& world) {
  const model::Problem problem = named_instance(options.instance);
  const auto network = network::make_network(problem.cluster);
  const FirstTable table(problem, *network, known_by_all(problem, *network, world));
  Machine machine = machine_of(options, distributed::measured_machine());
  machine.cores =
      options.cores >= 0 ? options.cores : static_cast<int>(std::thread::hardware_concurrency());
  const bool talks = world.rank() == 0;
  TableSummary counted = table.summary(options.walks);
  if (talks) {
    double priced = 0, walked = 0, segments = 0, prepared = 0;
    for (const distributed::Wave& wave : counted.waves) {
      priced += wave.priced;
      walked += wave.walked;
      for (const double s : wave.segments) segments += s;
      for (const double s : wave.prepared) prepared += s;
    }
    fmt::print(
        "{}: {} downsets in {} waves, {:.4g} cells\ncounted: {:.4g} met, {:.4g} priced, {:.4g} "
        "cells "
        "prepared, {:.4g} relaxed in {:.4g} runs\n",
        options.instance, table.instance().lattice().size(), counted.waves.size(), counted.cells(),
        walked, priced, prepared, counted.relaxed(), segments);
    fmt::print("{:>6} {:>6} {:>9} {:>9} {:>10} {:>7} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
               "ranks", "grid", "wall", "cpu/core", "predicted", "ratio", "alive", "waited", "work",
               "redundant", "gathers", "uneven", "MB/rank");
  }
  for (const Grid grid : grids(options, world.size())) {
    const Measured measured = fill(table, world, grid, options.seconds);
    TableSummary summary = counted;
    if (measured.next < table.instance().lattice().whole()) {
      summary = table.summary_until(measured.next, options.walks);
    }
    const double alive = measured.relaxed / std::max(1.0, summary.relaxed());
    summary.scale_pushes(alive);
    const Prediction p = distributed::predict(summary, grid, machine);
    if (!talks) continue;
    const double on_cores = measured.cpu_s / std::min(world.size(), std::max(1, machine.cores));
    fmt::print("{:>6} {:>6} {:>9.3f} {:>9.3f} {:>10.3f} {:>7.2f} {:>7.3f} {:>8.3f}", world.size(),
               fmt::format("{}x{}", grid.downsets, grid.stages), measured.seconds, on_cores,
               p.seconds, on_cores / p.seconds, alive, measured.waited_s);
    print_parts(p);
    std::fflush(stdout);
  }
  return 0;
}

/// The grid of so many ranks that is predicted to be the fastest.
std::pair<Grid, Prediction> best_grid(const TableSummary& table, int ranks,
                                      const Machine& machine) {
  std::pair<Grid, Prediction> best;
  best.second.seconds = std::numeric_limits<double>::infinity();
  for (int downsets = 1; downsets <= ranks; ++downsets) {
    if (ranks % downsets != 0) continue;
    const Grid grid{downsets, ranks / downsets};
    if (grid.stages > table.depths && grid.stages > 1) continue;
    const Prediction p = distributed::predict(table, grid, machine);
    if (p.seconds < best.second.seconds) best = {grid, p};
  }
  return best;
}

/// `factor` times as many downsets and pairs in every wave.
TableSummary widened(TableSummary table, double factor) {
  for (distributed::Wave& wave : table.waves) {
    wave.downsets *= factor;
    wave.targets *= factor;
    wave.walked *= factor;
    wave.priced *= factor;
    for (double& cells : wave.cells) cells *= factor;
    for (double& cells : wave.prepared) cells *= factor;
  }
  table.downsets *= factor;
  table.scale_pushes(factor);
  return table;
}

int predict_table(const Options& options, const model::Problem& problem) {
  const auto network = network::make_network(problem.cluster);
  const FirstTable table(problem, *network, known_before(problem, *network));
  const Machine machine = machine_of(options, distributed::assumed_cluster());
  TableSummary summary = table.summary(options.walks);
  summary.scale_pushes(options.pushes);
  const double alone = distributed::predict(summary, {1, 1}, machine).seconds;
  if (options.brief) {
    for (const int ranks : options.ranks) {
      const Prediction p = best_grid(summary, ranks, machine).second;
      fmt::print("{} {:.3f}\n", ranks, alone / p.seconds / ranks);
    }
    return 0;
  }
  fmt::print("{}: {} downsets, {:.4g} cells, {:.4g} relaxations, {:.4g} s alone\n",
             options.instance, table.instance().lattice().size(), summary.cells(),
             summary.relaxed(), alone);
  const auto heading = [](const char* kind) {
    fmt::print(
        "{}\n{:>6} {:>8} {:>10} {:>10} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} "
        "{:>9}\n",
        kind, "ranks", "grid", "seconds", "speed-up", "eff.", "msgs/wave", "MB recv", "MB band",
        "work", "redundant", "gathers", "uneven", "MB/rank");
  };
  const auto row = [&](int ranks, const TableSummary& of, double one_rank) {
    const auto [grid, p] = best_grid(of, ranks, machine);
    fmt::print("{:>6} {:>8} {:>10.4g} {:>10.4g} {:>7.3f} {:>9.1f} {:>9.4g} {:>9.4g}", ranks,
               fmt::format("{}x{}", grid.downsets, grid.stages), p.seconds, one_rank / p.seconds,
               one_rank / p.seconds / ranks, p.messages / static_cast<double>(of.waves.size()),
               p.gathered_bytes / 1e6, p.band_bytes / 1e6);
    print_parts(p);
  };
  heading("strong scaling");
  for (const int ranks : options.ranks) row(ranks, summary, alone);
  heading("weak scaling: waves as many times as wide as there are ranks");
  for (const int ranks : options.ranks) {
    row(ranks, widened(summary, ranks), alone * ranks);
  }
  return 0;
}

/// What a search on so many ranks chooses, for nodes with 64 ranks and 4 GiB each.
int choose(const Options& options, const model::Problem& problem) {
  const auto network = network::make_network(problem.cluster);
  const solver::Instance instance(problem, *network, solver::Lattice::enumerate(problem.graph));
  const Machine machine = machine_of(options, distributed::assumed_cluster());
  constexpr double kBytesPerRank = 4e9;
  for (const int ranks : options.ranks) {
    const auto start = Clock::now();
    const distributed::RankLayout layout =
        distributed::choose_layout(instance, ranks, kBytesPerRank, machine);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    fmt::print("{:>6} ranks: {}x{}x{}, chosen in {:.3g} s\n", ranks, layout.groups,
               layout.team.downsets, layout.team.stages, seconds);
  }
  return 0;
}

/// Costs of a sweep, from the part of it that is done in the time there is.
distributed::SweepSummary measure_sweep(const model::Problem& problem,
                                        const network::Network& network, double seconds) {
  distributed::SweepSummary sweep;
  solver::SearchSettings settings;
  settings.time_limit_s = seconds;
  std::int64_t done = 0;
  std::int64_t last_done = 0;
  double last_s = 0, first_s = 0;
  settings.progress = [&](const solver::Progress& progress) {
    done = progress.configurations_done;
    if (last_s == 0) first_s = progress.seconds;
    if (done > last_done) {
      sweep.longest_visit_s =
          std::max(sweep.longest_visit_s, (progress.seconds - last_s) / double(done - last_done));
    }
    last_done = done;
    last_s = progress.seconds;
    sweep.configurations = static_cast<double>(progress.configurations_total);
  };
  auto looked = Clock::now();
  double between = 0, squared = 0;
  settings.stop_requested = [&] {
    const double since = std::chrono::duration<double>(Clock::now() - looked).count();
    looked = Clock::now();
    between += since;
    squared += since * since;
    return false;
  };
  const model::Plan plan = solver::solve(problem, network, settings);
  const double part = std::max<double>(1, static_cast<double>(done));
  sweep.visits = sweep.configurations;
  sweep.visit_s = plan.search.seconds / part;
  sweep.serial_s = first_s;
  // as it is met by somebody who asks at any time
  sweep.look_s = between > 0 ? squared / between : 0;
  return sweep;
}

int predict_sweep(const Options& options, const model::Problem& problem) {
  const auto network = network::make_network(problem.cluster);
  constexpr double kSample = 60;
  const Machine machine = machine_of(options, distributed::assumed_cluster());
  const distributed::SweepSummary sweep =
      measure_sweep(problem, *network, std::min(options.seconds, kSample));
  const double alone = distributed::predict_sweep(sweep, 1, machine).seconds;
  if (options.brief) {
    for (const int ranks : options.ranks) {
      const Prediction p = distributed::predict_sweep(sweep, ranks, machine);
      fmt::print("{} {:.3f}\n", ranks, alone / p.seconds / ranks);
    }
    return 0;
  }
  fmt::print(
      "{}: {} configurations, {:.3g} s each, the longest {:.3g} s, {:.3g} s before them, "
      "{:.3g} s between looks at the board\n",
      options.instance, sweep.configurations, sweep.visit_s, sweep.longest_visit_s, sweep.serial_s,
      sweep.look_s);
  fmt::print("{:>6} {:>10} {:>10} {:>7} {:>9} {:>9} {:>9} {:>9}\n", "ranks", "seconds", "speed-up",
             "eff.", "work", "serial", "board", "tail");
  for (const int ranks : options.ranks) {
    const Prediction p = distributed::predict_sweep(sweep, ranks, machine);
    fmt::print("{:>6} {:>10.4g} {:>10.4g} {:>7.3f} {:>9.3g} {:>9.3g} {:>9.3g} {:>9.3g}\n", ranks,
               p.seconds, alone / p.seconds, alone / p.seconds / ranks, p.work_s, p.redundant_s,
               p.gather_s, p.uneven_s);
  }
  return 0;
}

int run(const Options& options, const mpi::Comm& world) {
  if (options.command == "measure") {
    const model::Problem problem = named_instance(options.instance);
    const auto network = network::make_network(problem.cluster);
    const FirstTable table(problem, *network, known_by_all(problem, *network, world));
    const Machine machine = measure_machine(table, world);
    if (world.rank() == 0) distributed::write(std::cout, machine);
    return 0;
  }
  if (options.command == "check") return check(options, world);
  if (options.command == "predict") {
    if (world.size() > 1) throw InvalidConfig("predict needs one rank");
    const model::Problem problem = named_instance(options.instance);
    return options.instance.starts_with("llama") ? predict_sweep(options, problem)
                                                 : predict_table(options, problem);
  }
  if (options.command == "layout") return choose(options, named_instance(options.instance));
  throw InvalidConfig("\"" + options.command + "\" is not one of measure, check, predict, layout");
}

}  // namespace
}  // namespace nestplan::bench

int main(int argc, char** argv) {
  const nestplan::mpi::Environment environment;
  const auto world = nestplan::mpi::Comm::duplicate(MPI_COMM_WORLD);
  try {
    return nestplan::bench::run(nestplan::bench::parse({argv, static_cast<std::size_t>(argc)}),
                                world);
  } catch (const nestplan::Error& error) {
    fmt::print(stderr, "scaling_model: {}\n", error.what());
    world.abort(2);
  }
}

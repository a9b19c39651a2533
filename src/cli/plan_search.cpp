#include "cli/plan_search.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>

#include "cli/console.hpp"
#include "cli/progress.hpp"
#include "nestplan/distributed/solve.hpp"
#include "nestplan/solver/solver.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr double kSaveEvery = 300;  ///< seconds

}  // namespace

SearchEnd end_of(const Flags& flags) {
  SearchEnd end;
  end.time_limit_s = flags.time_limit.value_or(end.time_limit_s);
  return end;
}

std::optional<model::Plan> search(const Flags& flags, const Setup& setup, const Ranks& ranks,
                                  SearchFile* file, const SearchEnd& end) {
  solver::SearchSettings settings;
  settings.time_limit_s = end.time_limit_s;
  bool enough = false;
  settings.stop_requested = [&enough] { return enough || stop_requested(); };
  ProgressLine line;
  if (!flags.quiet || end.any_plan) {
    settings.progress = [&](const solver::Progress& progress) {
      enough = end.any_plan && progress.best_s > 0;
      if (!flags.quiet) line.show(progress);
    };
  }
  settings.memory_limit_bytes =
      distributed::memory_per_rank(ranks.size() > 1 ? &ranks.world() : nullptr);
  solver::Checkpoints checkpoints;
  if (file != nullptr) {
    checkpoints.every_s = flags.checkpoint_every.value_or(kSaveEvery);
    checkpoints.save = [&](const auto& state) {
      const auto start = std::chrono::steady_clock::now();
      const std::int64_t bytes = file->save(state);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (!flags.verbose || flags.quiet) return;
      line.wipe();
      print_message(fmt::format("nestplan: saved {} in {}",
                                util::format_bytes_binary(static_cast<double>(bytes)),
                                util::format_seconds(taken.count())));
    };
    checkpoints.from = file->state();
    settings.checkpoints = &checkpoints;
  }
  if (ranks.size() == 1) return solver::solve(setup.problem, *setup.network, settings);
  std::optional<distributed::RankLayout> layout;
  if (!flags.grid.empty()) layout = distributed::parse_layout(flags.grid, ranks.size());
  try {
    return distributed::solve(setup.problem, *setup.network, settings, ranks.world(), layout);
  } catch (const AgreedFailure&) {
    throw;
  } catch (const MemoryLimit&) {
    throw;  // on all ranks
  } catch (...) {
    ranks.end_all();
    throw;
  }
}

}  // namespace nestplan::cli

#include "nestplan/distributed/solve.hpp"

#include <algorithm>
#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/utility.hpp>
#include <boost/serialization/vector.hpp>
#include <chrono>
#include <cstring>
#include <map>
#include <sstream>

#include "distributed/layout.hpp"
#include "distributed/mpi_board.hpp"
#include "distributed/mpi_team.hpp"
#include "solver/search.hpp"

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, nestplan::cost::PlacedStage& stage, const unsigned /*version*/) {
  archive& stage.layers& stage.strategy& stage.position& stage.recompute& stage.zero;
}

template <class Archive>
void serialize(Archive& archive, nestplan::cost::PlacedPlan& plan, const unsigned /*version*/) {
  archive& plan.dp& plan.dp_inner& plan.stages;
}

}  // namespace boost::serialization

namespace nestplan::distributed {
namespace {

using solver::SearchResult;
using solver::Total;

/// What a group found, as it travels to rank 0.
struct Report {
  std::vector<cost::PlacedPlan> plan;  ///< one or none
  std::string total, lower_bound;      ///< raw bytes: no archive knows 128-bit numbers
  bool complete = true;
  std::int64_t tables = 0, cells = 0;
  std::vector<std::pair<std::string, std::int64_t>> rejected;

  template <class Archive>
  void serialize(Archive& archive, const unsigned /*version*/) {
    archive& plan& total& lower_bound& complete& tables& cells& rejected;
  }
};

std::string raw(Total value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

Total from_raw(const std::string& bytes) {
  Total value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::vector<std::byte> to_bytes(const SearchResult& result) {
  Report report;
  if (result.plan) report.plan.push_back(*result.plan);
  report.total = raw(result.total);
  report.lower_bound = raw(result.lower_bound);
  report.complete = result.complete;
  report.tables = result.stats.tables;
  report.cells = result.stats.cells;
  report.rejected = result.stats.rejected;
  std::ostringstream out;
  boost::archive::binary_oarchive(out) << report;
  const std::string text = out.str();
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Report to_report(const std::vector<std::byte>& bytes) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  Report report;
  boost::archive::binary_iarchive(in) >> report;
  return report;
}

/// *Collective over `world`.*
model::RankFigure figure(const mpi::Comm& world, const char* name, double mine) {
  return {name, world.min(mine), world.sum(mine) / world.size(), world.max(mine)};
}

/// The best of what the groups found; of equal plans the canonical one.
SearchResult merge(const SearchResult& own, const std::vector<std::vector<std::byte>>& reports,
                   int ranks) {
  SearchResult result = own;
  result.stats.tables = 0;
  result.stats.cells = 0;
  result.stats.ranks = ranks;
  std::map<std::string, std::int64_t> rejected;
  for (const auto& bytes : reports) {
    if (bytes.empty()) continue;
    const Report report = to_report(bytes);
    const Total total = from_raw(report.total);
    result.complete = result.complete && report.complete;
    result.lower_bound = std::min(result.lower_bound, from_raw(report.lower_bound));
    result.stats.tables += report.tables;
    result.stats.cells += report.cells;
    for (const auto& [reason, count] : report.rejected) rejected[reason] += count;
    if (report.plan.empty()) continue;
    const cost::PlacedPlan& plan = report.plan.front();
    if (!result.plan || total < result.total ||
        (total == result.total && solver::canonically_before(plan, *result.plan))) {
      result.plan = plan;
      result.total = total;
    }
  }
  if (result.complete && result.plan) result.lower_bound = result.total;
  result.stats.rejected.assign(rejected.begin(), rejected.end());
  return result;
}

/// One search of this rank's group, and what it looks like from this rank. *Collective.*
class GroupSearch {
 public:
  GroupSearch(const solver::Instance& instance, const solver::SearchSettings& settings,
              const mpi::Comm& world, const RankLayout& layout)
      : world_(world),
        leads_(world.rank() % layout.team.size() == 0),
        board_(world.split(leads_ ? 0 : 1, world.rank())),
        team_(world.split(world.rank() / layout.team.size(), world.rank()), layout.team,
              [this] { serve(); }) {
    solver::SearchSettings mine = settings;
    mine.stop_requested = [&] {
      serve();
      return settings.stop_requested && settings.stop_requested();
    };
    if (world.rank() != 0) mine.progress = nullptr;
    result_ = solver::Search(instance, mine, team_, board_).run();
  }

  const SearchResult& result() const { return result_; }

  /// Nothing from ranks that do not lead their group.
  std::vector<std::byte> report() const {
    return leads_ ? to_bytes(result_) : std::vector<std::byte>{};
  }

  /// *Collective.*
  std::vector<model::RankFigure> figures() const {
    const model::SearchStats& stats = result_.stats;
    return {figure(world_, "computing, s", stats.seconds - team_.waited_s()),
            figure(world_, "waiting, s", team_.waited_s()),
            figure(world_, "sent, MB", team_.sent_bytes() / 1e6),
            figure(world_, "cells, millions", static_cast<double>(stats.cells) / 1e6),
            figure(world_, "table, MB", stats.largest_table_bytes / 1e6)};
  }

 private:
  void serve() {
    if (leads_) board_.serve();
  }

  const mpi::Comm& world_;
  const bool leads_;
  MpiBoard board_;
  MpiTeam team_;
  SearchResult result_;
};

}  // namespace

std::optional<model::Plan> solve(const model::Problem& problem, const cost::Network& network,
                                 const solver::SearchSettings& settings, const mpi::Comm& world,
                                 const std::optional<RankLayout>& wanted) {
  solver::check_options(problem.options);
  const auto start = std::chrono::steady_clock::now();
  const std::optional<solver::Lattice> lattice = solver::enumerate(problem.graph, settings);
  if (world.max(std::int64_t{lattice ? 0 : 1}) != 0) {
    if (world.rank() != 0) return std::nullopt;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return solver::stopped_at_once(problem, spent.count());
  }
  for (solver::TickHorizon horizon;;) {
    const solver::Instance instance(problem, network, *lattice, settings.collapse,
                                    horizon.seconds());
    const RankLayout layout =
        wanted ? *wanted : choose_layout(instance, world.size(), settings.memory_limit_bytes);
    const GroupSearch search(instance, settings, world, layout);
    if (horizon.improve(search.result())) continue;
    const std::vector<model::RankFigure> figures = search.figures();
    const auto reports = world.all_gather(search.report());
    if (world.rank() != 0) return std::nullopt;
    SearchResult merged = merge(search.result(), reports, world.size());
    merged.stats.per_rank = figures;
    return solver::to_plan(instance, merged);
  }
}

}  // namespace nestplan::distributed

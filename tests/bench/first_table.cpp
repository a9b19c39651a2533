#include "bench/first_table.hpp"

#include "nestplan/util/errors.hpp"
#include "solver/ladder.hpp"
#include "solver/search.hpp"

namespace nestplan::bench {

using solver::Instance;
using solver::Lattice;
using solver::Total;

Total known_before(const model::Problem& problem, const network::Network& network) {
  const std::vector<solver::Rung> rungs =
      solver::ladder(problem, Lattice::enumerate(problem.graph), false);
  Total known = solver::kNoTotal;
  for (std::size_t r = 0; r + 1 < rungs.size(); ++r) {
    const Instance instance(rungs[r].problem, network, rungs[r].lattice);
    const solver::SearchSettings settings;
    solver::SoloTeam team;
    solver::LocalBoard board;
    solver::Search search(instance, settings, {team, board, 0}, known);
    known = std::min(known, search.meet(search.run()).best);
  }
  return known;
}

FirstTable::FirstTable(const model::Problem& problem, const network::Network& network, Total known)
    : instance_(problem, network, Lattice::enumerate(problem.graph)),
      space_(instance_),
      classes_(instance_),
      configurations_(space_.list()) {
  incumbent_.hear(known);
  if (configurations_.empty()) throw InvalidInput("no configuration is left");
  const solver::Configuration& configuration = configurations_.front();
  placement_ = std::make_unique<solver::Placement>(instance_, configuration, classes_);
  bounds_ = std::make_unique<solver::DepthBounds>(instance_, configuration, placement_->floor());
  const solver::Visit::Subject subject{instance_, *placement_, *bounds_, 0, true};
  std::vector<std::int64_t> depths = space_.depths(configuration);
  solver::drop_hopeless(subject, incumbent_, depths);
  visit_ = std::make_unique<solver::Visit>(subject, incumbent_, std::move(depths));
  if (visit_->request() == nullptr) throw InvalidInput("no table is needed");
  layers_ = std::make_unique<solver::PortLayers>(instance_, *placement_, request().depths);
}

distributed::TableSummary FirstTable::summary(std::int64_t walks) const {
  return distributed::summarise(instance_, *placement_, *layers_, request().depths,
                                request().limits, walks);
}

distributed::TableSummary FirstTable::summary_until(solver::DownsetId next,
                                                    std::int64_t walks) const {
  distributed::TableSummary result = summary(walks);
  std::size_t waves = 0;
  const solver::Lattice& lattice = instance_.lattice();
  for (solver::DownsetId d = 0; d < std::min(next, lattice.whole()); d = lattice.next_wave(d)) {
    ++waves;
  }
  result.waves.resize(std::max<std::size_t>(1, waves));
  return result;
}

solver::Table FirstTable::make(solver::Team& team) const {
  return {instance_,         *placement_,      *layers_, request().depths,
          request().combine, request().limits, team};
}

}  // namespace nestplan::bench

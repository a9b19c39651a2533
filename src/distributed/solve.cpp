#include "nestplan/distributed/solve.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "distributed/layout.hpp"
#include "distributed/mpi_board.hpp"
#include "distributed/mpi_team.hpp"
#include "distributed/node_storage.hpp"
#include "solver/fleet.hpp"

namespace nestplan::distributed {
namespace {

/// *Collective over `world`.*
model::RankFigure figure(const mpi::Comm& world, const char* name, double mine) {
  return {name, world.min(mine), world.sum(mine) / world.size(), world.max(mine)};
}

/// The ranks of a communicator, in groups that each search chooses anew.
class MpiFleet final : public solver::Fleet {
 public:
  MpiFleet(const mpi::Comm& world, const std::optional<RankLayout>& wanted)
      : world_(world),
        node_(world.split_by_node()),
        wanted_(wanted),
        all_(world.split(0, world.rank()), {world.size(), 1}, {}) {}

  solver::Team& world() override { return all_; }

  std::shared_ptr<util::Storage> storage() override { return std::make_shared<NodeStorage>(node_); }

  void regroup(const solver::Instance& instance, double bytes_per_rank) override {
    const RankLayout layout =
        wanted_ ? *wanted_ : choose_layout(instance, world_.size(), world_.min(bytes_per_rank));
    count_out();
    team_.reset();
    board_.reset();
    const int index = world_.rank() / layout.team.size();
    leads_ = world_.rank() % layout.team.size() == 0;
    index_ = index;
    board_ = std::make_unique<MpiBoard>(world_.split(leads_ ? 0 : 1, world_.rank()));
    team_ = std::make_unique<MpiTeam>(world_.split(index, world_.rank()), layout.team,
                                      [this] { attend(); });
  }

  solver::Group group() override { return {*team_, *board_, index_}; }

  bool attend() override { return board_ && leads_ && board_->attend(); }

  std::vector<model::RankFigure> figures(const model::SearchStats& mine) override {
    count_out();
    return {figure(world_, "computing, s", mine.seconds - waited_s_),
            figure(world_, "waiting, s", waited_s_), figure(world_, "sent, MB", sent_bytes_ / 1e6),
            figure(world_, "cells, millions", static_cast<double>(mine.cells) / 1e6),
            figure(world_, "table, MB", mine.largest_table_bytes / 1e6)};
  }

 private:
  /// What the team did until now.
  void count_out() {
    if (!team_) return;
    waited_s_ = team_->waited_s();
    sent_bytes_ = team_->sent_bytes();
  }

  const mpi::Comm& world_;
  mpi::Comm node_;
  std::optional<RankLayout> wanted_;
  MpiTeam all_;
  bool leads_ = true;
  int index_ = 0;
  std::unique_ptr<MpiBoard> board_;
  std::unique_ptr<MpiTeam> team_;
  double waited_s_ = 0;
  double sent_bytes_ = 0;
};

}  // namespace

std::optional<model::Plan> solve(const model::Problem& problem, const network::Network& network,
                                 const solver::SearchSettings& settings, const mpi::Comm& world,
                                 const std::optional<RankLayout>& layout) {
  MpiFleet fleet(world, layout);
  return solver::solve(problem, network, settings, fleet);
}

}  // namespace nestplan::distributed

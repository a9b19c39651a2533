#pragma once

#include <memory>
#include <vector>

#include "nestplan/model/plan.hpp"
#include "nestplan/util/array.hpp"
#include "solver/search.hpp"

namespace nestplan::solver {

/// The ranks of a search and how they are grouped. What is collective is so over all of them.
class Fleet {
 public:
  virtual ~Fleet() = default;

  /// All ranks; for gathers and broadcasts only.
  virtual Team& world() = 0;

  /// Memory for what the ranks of a node can share. Collective.
  virtual std::shared_ptr<util::Storage> storage() = 0;

  /// Makes groups that suit `instance`, of ranks with so much memory. Collective.
  virtual void regroup(const Instance& instance, double bytes_per_rank) = 0;

  /// The group of this rank, good until the next `regroup`.
  virtual Group group() = 0;

  /// Looks after other groups; called now and then by every rank. Returns whether one of them was
  /// stopped.
  virtual bool attend() { return false; }

  /// What the ranks did, as far as there is something to tell. Collective.
  virtual std::vector<model::RankFigure> figures(const model::SearchStats& /*mine*/) { return {}; }
};

/// One rank on its own.
class SoloFleet final : public Fleet {
 public:
  Team& world() override { return team_; }
  std::shared_ptr<util::Storage> storage() override {
    return std::make_shared<util::LocalStorage>();
  }
  void regroup(const Instance&, double) override { board_ = LocalBoard(); }
  Group group() override { return {team_, board_, 0}; }

 private:
  SoloTeam team_;
  LocalBoard board_;
};

/// The optimum, found by all ranks of `fleet`; it comes back on the first. *Collective.*
///
/// The search climbs a ladder: a graph that branches is searched as a row of layers first, and
/// several strategies in one plan are preceded by one for all stages. What a rung finds is a plan
/// of the rungs above it as well, and bounds them from the start.
std::optional<model::Plan> solve(const model::Problem& problem, const network::Network& network,
                                 const SearchSettings& settings, Fleet& fleet);

}  // namespace nestplan::solver

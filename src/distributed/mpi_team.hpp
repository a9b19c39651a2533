#pragma once

#include <functional>
#include <memory>

#include "nestplan/mpi/mpi.hpp"
#include "nestplan/solver/team.hpp"

namespace nestplan::distributed {

/// A team of the ranks of one communicator.
class MpiTeam final : public solver::Team {
 public:
  /// `meanwhile` is called while waiting and working, to serve others. *Collective over `comm`.*
  MpiTeam(mpi::Comm comm, solver::Grid grid, std::function<void()> meanwhile);

  solver::Grid grid() const override { return grid_; }
  int rank() const override { return rank_; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override;
  void broadcast(std::span<std::byte> data) override;
  std::unique_ptr<solver::Pending> gather_rows(std::span<const double> mine,
                                               std::span<const int> counts, double* all) override;
  std::unique_ptr<solver::Pending> send_band(std::span<const double> band) override;
  std::unique_ptr<solver::Pending> receive_band(std::span<double> band) override;
  void progress() override;

  /// Seconds spent waiting for other ranks, and bytes sent to them, so far.
  double waited_s() const { return waited_s_; }
  double sent_bytes() const { return sent_bytes_; }

 private:
  mpi::Comm comm_;
  solver::Grid grid_;
  int rank_ = 0;
  mpi::Comm block_;  ///< the ranks of this stage block
  std::function<void()> meanwhile_;
  double waited_s_ = 0;
  double sent_bytes_ = 0;
};

}  // namespace nestplan::distributed

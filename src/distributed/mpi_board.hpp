#pragma once

#include <deque>
#include <vector>

#include "nestplan/mpi/mpi.hpp"
#include "nestplan/solver/board.hpp"

namespace nestplan::distributed {

/// One board for several groups. The first rank of `leaders` keeps the queue and serves the others
/// whenever it is told to (`serve`), also while it works or waits itself.
class MpiBoard final : public solver::Board {
 public:
  explicit MpiBoard(mpi::Comm leaders);

  void post(std::vector<solver::BoardEntry> entries) override;
  solver::Ticket exchange(const std::vector<solver::BoardEntry>& back, solver::Total best) override;
  solver::Winner settle(const solver::Winner& mine) override;

  /// Answers what has arrived; nothing to do on other ranks.
  void serve();

 private:
  void take_back(const std::vector<solver::BoardEntry>& back, solver::Total best);
  /// The next ticket, unless entries that others hold may still come back.
  bool ready() const { return !queue_empty_ || handed_out_ == 0 || stopping_; }
  solver::Ticket hand_out();
  void answer_waiting();

  mpi::Comm leaders_;
  solver::BoardQueue queue_;
  bool queue_empty_ = false;
  std::int64_t handed_out_ = 0;  ///< entries that come back bounded
  std::deque<int> waiting_;      ///< groups that want a ticket
  std::vector<solver::Winner> finished_;
  bool serving_ = false;
  bool stopping_ = false;
};

}  // namespace nestplan::distributed

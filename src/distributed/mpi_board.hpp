#pragma once

#include <deque>
#include <vector>

#include "nestplan/mpi/mpi.hpp"
#include "nestplan/solver/board.hpp"

namespace nestplan::distributed {

/// One board for several groups. The first rank of `leaders` keeps the queue and serves the others
/// whenever it is told to (`attend`), also while it works or waits itself.
class MpiBoard final : public solver::Board {
 public:
  explicit MpiBoard(mpi::Comm leaders);

  void post(std::vector<solver::BoardEntry> entries) override;
  solver::Ticket exchange(const std::vector<solver::BoardEntry>& back, solver::Total best) override;
  solver::Standing meet(const solver::Standing& mine,
                        const std::vector<solver::BoardEntry>& untaken) override;
  std::vector<solver::BoardEntry> waiting() const override { return queue_.list(); }

  /// Answers what has arrived. Returns whether a group has come to a meeting because it was
  /// stopped: the others are to follow.
  bool attend();

 private:
  bool keeps_queue() const { return leaders_.rank() == 0; }
  void serve();
  void take_back(const std::vector<solver::BoardEntry>& back, solver::Total best);
  /// The next ticket, unless entries that others hold may still come back.
  bool ready() const { return !queue_empty_ || handed_out_ == 0 || stopping_; }
  solver::Ticket hand_out();
  void answer_waiting();
  void arrive(const solver::Standing& standing, const std::vector<solver::BoardEntry>& untaken);
  void call_others();

  mpi::Comm leaders_;
  solver::BoardQueue queue_;
  bool queue_empty_ = false;
  std::int64_t handed_out_ = 0;  ///< entries that come back bounded
  std::deque<int> waiting_;      ///< groups that want a ticket
  int arrived_ = 0;              ///< groups that have come to the meeting
  solver::Standing standing_;    ///< of those
  bool serving_ = false;
  bool stopping_ = false;  ///< a group was stopped
  bool called_ = false;    ///< this group was told so, or has told the others
};

}  // namespace nestplan::distributed

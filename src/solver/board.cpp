#include "nestplan/solver/board.hpp"

#include <functional>

namespace nestplan::solver {

void BoardQueue::post(std::vector<BoardEntry> entries) {
  queue_ = std::priority_queue<BoardEntry, std::vector<BoardEntry>, std::greater<>>(
      std::greater<>{}, std::move(entries));
}

Ticket BoardQueue::take(std::int64_t batch) {
  Ticket ticket;
  ticket.best = best_;
  // Bounds rise, so nothing behind one that is strictly worse can win.
  if (!queue_.empty() && queue_.top().bound > best_) queue_ = {};
  ticket.lower_bound = queue_.empty() ? best_ : queue_.top().bound;
  while (!queue_.empty() && static_cast<std::int64_t>(ticket.entries.size()) < batch) {
    const BoardEntry next = queue_.top();
    if (next.bound > best_ || (next.bounded != 0 && !ticket.entries.empty())) break;
    ticket.entries.push_back(next);
    queue_.pop();
    if (next.bounded != 0) break;
  }
  ticket.waiting = static_cast<std::int64_t>(queue_.size());
  return ticket;
}

Ticket LocalBoard::exchange(const std::vector<BoardEntry>& back, Total best) {
  for (const BoardEntry& entry : back) queue_.put_back(entry);
  queue_.offer(best);
  return queue_.take(1);
}

}  // namespace nestplan::solver

#include "nestplan/solver/board.hpp"

#include <algorithm>
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

std::vector<BoardEntry> BoardQueue::list() const {
  std::vector<BoardEntry> entries;
  for (auto rest = queue_; !rest.empty(); rest.pop()) entries.push_back(rest.top());
  return entries;
}

Standing merge(const Standing& a, const Standing& b) {
  Standing both = a;
  if (b.best < a.best || (b.best == a.best && b.key < a.key)) {
    both.best = b.best;
    both.key = b.key;
  }
  both.lower_bound = std::min(a.lower_bound, b.lower_bound);
  both.halt = std::max(a.halt, b.halt);
  return both;
}

Standing LocalBoard::meet(const Standing& mine, const std::vector<BoardEntry>& untaken) {
  for (const BoardEntry& entry : untaken) queue_.put_back(entry);
  queue_.offer(mine.best);
  Standing all = mine;
  all.lower_bound = std::min(all.lower_bound, queue_.least_bound());
  return all;
}

Ticket LocalBoard::exchange(const std::vector<BoardEntry>& back, Total best) {
  for (const BoardEntry& entry : back) queue_.put_back(entry);
  queue_.offer(best);
  return queue_.take(1);
}

}  // namespace nestplan::solver

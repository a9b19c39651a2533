#include "distributed/mpi_board.hpp"

#include <cstring>
#include <span>
#include <utility>

namespace nestplan::distributed {
namespace {

using solver::BoardEntry;
using solver::Ticket;
using solver::Total;

/// Entries that another group bounds at a time: each is tens of microseconds of work, about as much
/// as a message.
constexpr std::int64_t kBatch = 32;

/// A ticket, or what came of one, as a message: a head and entries.
struct Head {
  Total best = solver::kNoTotal;
  Total lower_bound = 0;
  std::int64_t waiting = 0;
  std::int64_t stop = 0;
};

std::vector<std::byte> pack(const Head& head, const std::vector<BoardEntry>& entries) {
  std::vector<std::byte> bytes(sizeof(Head) + entries.size() * sizeof(BoardEntry));
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!entries.empty()) {
    std::memcpy(bytes.data() + sizeof head, entries.data(), entries.size() * sizeof(BoardEntry));
  }
  return bytes;
}

std::pair<Head, std::vector<BoardEntry>> unpack(const std::vector<std::byte>& bytes) {
  std::pair<Head, std::vector<BoardEntry>> message;
  std::memcpy(&message.first, bytes.data(), sizeof(Head));
  message.second.resize((bytes.size() - sizeof(Head)) / sizeof(BoardEntry));
  if (!message.second.empty()) {
    std::memcpy(message.second.data(), bytes.data() + sizeof(Head), bytes.size() - sizeof(Head));
  }
  return message;
}

}  // namespace

MpiBoard::MpiBoard(mpi::Comm leaders) : leaders_(std::move(leaders)) {}

void MpiBoard::post(std::vector<BoardEntry> entries) {
  if (leaders_.rank() == 0) queue_.post(std::move(entries));
}

void MpiBoard::take_back(const std::vector<BoardEntry>& back, Total best) {
  for (const BoardEntry& entry : back) {
    queue_.put_back(entry);
    --handed_out_;
    queue_empty_ = false;
  }
  queue_.offer(best);
}

Ticket MpiBoard::hand_out() {
  if (stopping_) queue_.clear();
  Ticket ticket = queue_.take(kBatch);
  queue_empty_ = ticket.entries.empty();
  if (!queue_empty_ && ticket.entries.front().bounded == 0) {
    handed_out_ += static_cast<std::int64_t>(ticket.entries.size());
  }
  ticket.stop = stopping_;
  return ticket;
}

void MpiBoard::answer_waiting() {
  while (!waiting_.empty() && ready()) {
    const Ticket ticket = hand_out();
    if (ticket.entries.empty() && !ready()) return;
    leaders_.send(pack({ticket.best, ticket.lower_bound, ticket.waiting, ticket.stop ? 1 : 0},
                       ticket.entries),
                  waiting_.front(), mpi::Tag::kReply);
    waiting_.pop_front();
  }
}

void MpiBoard::serve() {
  if (leaders_.rank() != 0 || leaders_.size() == 1 || serving_) return;
  serving_ = true;
  while (const auto from = leaders_.probe(mpi::Tag::kRequest)) {
    const auto [head, back] = unpack(leaders_.receive(*from, mpi::Tag::kRequest));
    take_back(back, head.best);
    waiting_.push_back(*from);
  }
  while (const auto from = leaders_.probe(mpi::Tag::kFinish)) {
    const std::vector<std::byte> bytes = leaders_.receive(*from, mpi::Tag::kFinish);
    solver::Winner finish;
    std::memcpy(&finish, bytes.data(), sizeof finish);
    finished_.push_back(finish);
    stopping_ = stopping_ || finish.stopped != 0;
  }
  answer_waiting();
  serving_ = false;
}

Ticket MpiBoard::exchange(const std::vector<BoardEntry>& back, Total best) {
  if (leaders_.rank() != 0) {
    leaders_.send(pack({best, 0, 0, 0}, back), 0, mpi::Tag::kRequest);
    auto [head, entries] = unpack(leaders_.receive(0, mpi::Tag::kReply));
    return {std::move(entries), head.best, head.lower_bound, head.waiting, head.stop != 0};
  }
  take_back(back, best);
  for (;;) {
    serve();
    const Ticket ticket = hand_out();
    if (!ticket.entries.empty() || ready()) return ticket;
  }
}

solver::Winner MpiBoard::settle(const solver::Winner& mine) {
  stopping_ = stopping_ || mine.stopped != 0;
  const auto better = [](const solver::Winner& a, const solver::Winner& b) {
    return a.best != b.best ? a.best < b.best : a.key < b.key;
  };
  solver::Winner winner = mine;
  const int others = leaders_.size() - 1;
  if (leaders_.rank() == 0) {
    while (static_cast<int>(finished_.size()) < others) serve();
    for (const solver::Winner& other : finished_) winner = better(other, winner) ? other : winner;
  } else {
    leaders_.send(std::as_bytes(std::span(&mine, 1)), 0, mpi::Tag::kFinish);
  }
  leaders_.broadcast(std::as_writable_bytes(std::span(&winner, 1)), 0);
  return winner;
}

}  // namespace nestplan::distributed

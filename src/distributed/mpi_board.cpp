#include "distributed/mpi_board.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace nestplan::distributed {
namespace {

using solver::BoardEntry;
using solver::Halt;
using solver::Standing;
using solver::Ticket;
using solver::Total;

/// Entries that another group bounds at a time: each is tens of microseconds of work, about as much
/// as a message.
constexpr std::int64_t kBatch = 32;

/// A message: a head and entries.
template <typename Head>
std::vector<std::byte> pack(const Head& head, const std::vector<BoardEntry>& entries) {
  std::vector<std::byte> bytes(sizeof(Head) + entries.size() * sizeof(BoardEntry));
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!entries.empty()) {
    std::memcpy(bytes.data() + sizeof head, entries.data(), entries.size() * sizeof(BoardEntry));
  }
  return bytes;
}

template <typename Head>
std::pair<Head, std::vector<BoardEntry>> unpack(const std::vector<std::byte>& bytes) {
  std::pair<Head, std::vector<BoardEntry>> message;
  std::memcpy(&message.first, bytes.data(), sizeof(Head));
  message.second.resize((bytes.size() - sizeof(Head)) / sizeof(BoardEntry));
  if (!message.second.empty()) {
    std::memcpy(message.second.data(), bytes.data() + sizeof(Head), bytes.size() - sizeof(Head));
  }
  return message;
}

/// The head of a ticket, or of what came of one.
struct TicketHead {
  Total best = solver::kNoTotal;
  Total lower_bound = 0;
  std::int64_t waiting = 0;
  std::int64_t stop = 0;
};

}  // namespace

MpiBoard::MpiBoard(mpi::Comm leaders) : leaders_(std::move(leaders)) {}

void MpiBoard::post(std::vector<BoardEntry> entries) {
  if (keeps_queue()) queue_.post(std::move(entries));
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
  if (stopping_) {
    Ticket ticket;
    ticket.stop = true;
    return ticket;
  }
  Ticket ticket = queue_.take(kBatch);
  queue_empty_ = ticket.entries.empty();
  if (!queue_empty_ && ticket.entries.front().bounded == 0) {
    handed_out_ += static_cast<std::int64_t>(ticket.entries.size());
  }
  return ticket;
}

void MpiBoard::answer_waiting() {
  while (!waiting_.empty() && ready()) {
    const Ticket ticket = hand_out();
    if (ticket.entries.empty() && !ready()) return;
    const TicketHead head{ticket.best, ticket.lower_bound, ticket.waiting, ticket.stop ? 1 : 0};
    leaders_.send(pack(head, ticket.entries), waiting_.front(), mpi::Tag::kReply);
    waiting_.pop_front();
  }
}

void MpiBoard::serve() {
  if (leaders_.size() == 1 || serving_) return;
  serving_ = true;
  while (const auto from = leaders_.probe(mpi::Tag::kRequest)) {
    const auto [head, back] = unpack<TicketHead>(leaders_.receive(*from, mpi::Tag::kRequest));
    take_back(back, head.best);
    waiting_.push_back(*from);
  }
  while (const auto from = leaders_.probe(mpi::Tag::kArrival)) {
    const auto [standing, untaken] = unpack<Standing>(leaders_.receive(*from, mpi::Tag::kArrival));
    arrive(standing, untaken);
  }
  answer_waiting();
  serving_ = false;
}

bool MpiBoard::attend() {
  if (keeps_queue()) {
    serve();
  } else if (!called_ && leaders_.probe(mpi::Tag::kCall)) {
    leaders_.receive(0, mpi::Tag::kCall);
    called_ = true;
  }
  return stopping_ || called_;
}

Ticket MpiBoard::exchange(const std::vector<BoardEntry>& back, Total best) {
  if (!keeps_queue()) {
    leaders_.send(pack(TicketHead{best, 0, 0, 0}, back), 0, mpi::Tag::kRequest);
    auto [head, entries] = unpack<TicketHead>(leaders_.receive(0, mpi::Tag::kReply));
    return {std::move(entries), head.best, head.lower_bound, head.waiting, head.stop != 0};
  }
  take_back(back, best);
  for (;;) {
    serve();
    const Ticket ticket = hand_out();
    if (!ticket.entries.empty() || ready()) return ticket;
  }
}

void MpiBoard::arrive(const Standing& standing, const std::vector<BoardEntry>& untaken) {
  for (const BoardEntry& entry : untaken) queue_.put_back(entry);
  queue_.offer(standing.best);
  standing_ = arrived_ == 0 ? standing : solver::merge(standing_, standing);
  ++arrived_;
  if (standing.halt != Halt::kDone) call_others();
}

/// A group was stopped: so are all others, each told once.
void MpiBoard::call_others() {
  stopping_ = true;
  if (called_) return;
  called_ = true;
  for (int other = 1; other < leaders_.size(); ++other) {
    leaders_.send({}, other, mpi::Tag::kCall);
  }
}

Standing MpiBoard::meet(const Standing& mine, const std::vector<BoardEntry>& untaken) {
  Standing all;
  if (keeps_queue()) {
    arrive(mine, untaken);
    while (arrived_ < leaders_.size()) serve();
    all = standing_;
    all.lower_bound = std::min(all.lower_bound, queue_.least_bound());
    // Whatever was handed out to be bounded has come back.
    arrived_ = 0;
    handed_out_ = 0;
    queue_empty_ = false;
  } else {
    leaders_.send(pack(mine, untaken), 0, mpi::Tag::kArrival);
  }
  leaders_.broadcast(std::as_writable_bytes(std::span(&all, 1)), 0);
  if (!keeps_queue() && all.halt != Halt::kDone && !called_) {
    leaders_.receive(0, mpi::Tag::kCall);
  }
  stopping_ = false;
  called_ = false;
  return all;
}

}  // namespace nestplan::distributed

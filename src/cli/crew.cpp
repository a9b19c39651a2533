#include "cli/crew.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "cli/ranks.hpp"

namespace nestplan::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// How long the ranks of a failed job are waited for. A failure that all of them see takes no time;
/// one that only some see leaves the others waiting inside of the search.
constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kGlance{1};

/// A failure as a message: its code and its text; no bytes if there is none.
std::vector<std::byte> pack(const std::optional<Failure>& failure) {
  if (!failure) return {};
  std::vector<std::byte> bytes(sizeof failure->code + failure->message.size());
  std::memcpy(bytes.data(), &failure->code, sizeof failure->code);
  std::memcpy(bytes.data() + sizeof failure->code, failure->message.data(),
              failure->message.size());
  return bytes;
}

std::optional<Failure> unpack(const std::vector<std::byte>& bytes) {
  if (bytes.empty()) return std::nullopt;
  Failure failure;
  std::memcpy(&failure.code, bytes.data(), sizeof failure.code);
  failure.message.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof failure.code,
                         bytes.size() - sizeof failure.code);
  return failure;
}

std::optional<Failure> attempt(const std::function<void()>& step) {
  try {
    step();
    return std::nullopt;
  } catch (...) {
    const auto [code, message] = describe_failure();
    return Failure{code, message};
  }
}

[[noreturn]] void give_up(const Failure& failure) {
  throw Error(failure.code, fmt::format("{}; not all ranks of the job came back from it, so the "
                                        "others end too",
                                        failure.message));
}

}  // namespace

Crew::Crew(const Ranks& ranks, int width) {
  if (ranks.size() == 1) return;
  const int crews = std::max(1, ranks.size() / width);
  const int mine = std::min(ranks.rank() / width, crews - 1);
  mpi::Comm crew = ranks.world().split(mine, ranks.rank());
  const bool first = crew.rank() == 0;
  if (crew.size() > 1) comm_.emplace(std::move(crew));
  mpi::Comm peers = ranks.world().split(first ? 0 : 1, ranks.rank());
  if (first && crews > 1) leaders_.emplace(std::move(peers));
}

std::int64_t Crew::agree(std::int64_t number) const {
  if (comm_) comm_->broadcast(std::as_writable_bytes(std::span(&number, 1)), 0);
  return number;
}

bool Crew::anywhere(bool here) const {
  return comm_ ? comm_->max(std::int64_t{here ? 1 : 0}) != 0 : here;
}

std::optional<Failure> Crew::together(const std::function<void()>& step,
                                      const std::function<void()>& meanwhile) const {
  const std::optional<Failure> own = attempt(step);
  if (!comm_) return own;
  return leads() ? gather(own, meanwhile) : hear_verdict(own);
}

std::optional<Failure> Crew::gather(std::optional<Failure> own,
                                    const std::function<void()>& meanwhile) const {
  std::optional<Failure> verdict = std::move(own);
  std::optional<Clock::time_point> failed_at;
  for (int missing = comm_->size() - 1; missing > 0;) {
    meanwhile();
    if (const auto from = comm_->probe(mpi::Tag::kFinish)) {
      auto theirs = unpack(comm_->receive(*from, mpi::Tag::kFinish));
      if (!verdict) verdict = std::move(theirs);
      --missing;
      continue;
    }
    if (verdict && !failed_at) failed_at = Clock::now();
    if (failed_at && Clock::now() - *failed_at > kPatience) give_up(*verdict);
    std::this_thread::sleep_for(kGlance);
  }
  for (int rank = 1; rank < comm_->size(); ++rank) {
    comm_->send(pack(verdict), rank, mpi::Tag::kReply);
  }
  return verdict;
}

std::optional<Failure> Crew::hear_verdict(const std::optional<Failure>& own) const {
  comm_->send(pack(own), 0, mpi::Tag::kFinish);
  const Clock::time_point start = Clock::now();
  while (own && !comm_->probe(mpi::Tag::kReply)) {
    if (Clock::now() - start > kPatience) give_up(*own);
    std::this_thread::sleep_for(kGlance);
  }
  return unpack(comm_->receive(0, mpi::Tag::kReply));
}

}  // namespace nestplan::cli

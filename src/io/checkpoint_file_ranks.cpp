#include "io/checkpoint_file_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "nestplan/mpi/mpi.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::io {
namespace {

/// Most words of one reduction.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 26;

/// An error as it travels.
struct Failure {
  ExitCode code = ExitCode::kInternalError;
  std::string message;
};

Failure describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {known.code(), known.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::kOutOfMemory, "no memory is left to handle the checkpoint"};
  } catch (const std::exception& other) {
    return {ExitCode::kInternalError, other.what()};
  } catch (...) {
    return {ExitCode::kInternalError, "unknown error"};
  }
}

[[noreturn]] void raise(const Failure& failure) {
  switch (failure.code) {
    case ExitCode::kBadInput:
      throw InvalidInput(failure.message);
    case ExitCode::kSystemFailure:
      throw IoError(failure.message);
    case ExitCode::kOutOfMemory:
      throw MemoryLimit(failure.message);
    case ExitCode::kInternalError:
      throw InternalError(failure.message);
    case ExitCode::kDone:
    case ExitCode::kInfeasible:
    case ExitCode::kStopped:
      break;
  }
  throw Error(failure.code, failure.message);
}

}  // namespace

Ranks::Ranks(const mpi::Comm* comm) : comm_(comm) {
  if (comm == nullptr) return;
  rank_ = comm->rank();
  size_ = comm->size();
}

void Ranks::agree(const std::function<void()>& work) const { agree(work, 0); }

void Ranks::agree(const std::function<void()>& work, std::uint64_t call) const {
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  settle(error, call);
}

void Ranks::fail(const std::exception_ptr& error) const {
  settle(error, 0);
  throw InternalError("a failure was agreed on that is none");
}

void Ranks::settle(const std::exception_ptr& error, std::uint64_t call) const {
  if (comm_ == nullptr) {
    if (error) std::rethrow_exception(error);
    return;
  }
  // the first rank that failed, and the extremes of `call`, in one reduction
  const auto place = error ? static_cast<std::uint64_t>(size_ - rank_) : 0;
  std::array<std::uint64_t, 3> most{place, call, ~call};
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, most.data(), static_cast<int>(most.size()), MPI_UINT64_T,
                           MPI_MAX, comm_->handle()),
             "MPI_Allreduce");
  if (most[0] == 0) {
    if (most[1] == ~most[2]) return;
    throw InternalError("the ranks do not save the same arrays");
  }
  const int first = size_ - static_cast<int>(most[0]);
  Failure failure;
  if (error) failure = describe(error);
  std::array<std::uint64_t, 2> head{static_cast<std::uint64_t>(failure.code),
                                    failure.message.size()};
  comm_->broadcast(std::as_writable_bytes(std::span(head)), first);
  failure.message.resize(head[1]);
  comm_->broadcast(std::as_writable_bytes(std::span(failure.message)), first);
  if (rank_ == first) std::rethrow_exception(error);
  raise({static_cast<ExitCode>(head[0]), failure.message});
}

void Ranks::broadcast(std::span<std::byte> data) const {
  if (comm_ != nullptr) comm_->broadcast(data, 0);
}

std::string Ranks::broadcast(const std::string& text) const {
  std::string copy = text;
  copy.resize(broadcast(std::uint64_t{text.size()}));
  broadcast(std::as_writable_bytes(std::span(copy)));
  return copy;
}

std::uint64_t Ranks::broadcast(std::uint64_t value) const {
  broadcast(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

bool Ranks::all_equal(std::uint64_t value) const {
  if (comm_ == nullptr) return true;
  std::array<std::uint64_t, 2> most{value, ~value};
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, most.data(), static_cast<int>(most.size()), MPI_UINT64_T,
                           MPI_MAX, comm_->handle()),
             "MPI_Allreduce");
  return most[0] == ~most[1];
}

bool Ranks::any(bool value) const {
  return comm_ == nullptr ? value : comm_->max(std::int64_t{value}) != 0;
}

void Ranks::sum(std::span<std::uint64_t> values) const {
  if (comm_ == nullptr) return;
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kMostAtOnce);
    // NOLINTNEXTLINE(mpi-type-mismatch): std::uint64_t is MPI_UINT64_T
    mpi::check(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count), MPI_UINT64_T,
                             MPI_SUM, comm_->handle()),
               "MPI_Allreduce");
    values = values.subspan(count);
  }
}

std::vector<int> Ranks::exchange_counts(const std::vector<int>& counts) const {
  if (comm_ == nullptr) return counts;
  std::vector<int> from(counts.size());
  mpi::check(MPI_Alltoall(counts.data(), 1, MPI_INT, from.data(), 1, MPI_INT, comm_->handle()),
             "MPI_Alltoall");
  return from;
}

void Ranks::exchange(std::span<const double> sent, const std::vector<int>& to,
                     std::span<double> received, const std::vector<int>& from) const {
  if (comm_ == nullptr) return;  // nothing is for others
  const auto places = [](const std::vector<int>& counts) {
    std::vector<int> result(counts.size(), 0);
    std::exclusive_scan(counts.begin(), counts.end(), result.begin(), 0);
    return result;
  };
  mpi::check(MPI_Alltoallv(sent.data(), to.data(), places(to).data(), MPI_DOUBLE, received.data(),
                           from.data(), places(from).data(), MPI_DOUBLE, comm_->handle()),
             "MPI_Alltoallv");
}

}  // namespace nestplan::io

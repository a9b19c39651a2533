#include "cli/ranks.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <new>

#include "cli/console.hpp"

namespace nestplan::cli {

std::pair<ExitCode, std::string> describe_failure() {
  try {
    throw;
  } catch (const InternalError& error) {
    return {error.code(), fmt::format("internal error: {}", error.what())};
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::kOutOfMemory,
            "out of memory: the search does not fit into this machine; restrict it "
            "(--micro-batch, --tp, --pp, --dp) or use a larger one"};
  } catch (const std::exception& error) {
    return {ExitCode::kInternalError, fmt::format("internal error: {}", error.what())};
  }
}

Ranks::Ranks() {
  if (!mpi::started_by_launcher()) return;
  environment_ = std::make_unique<mpi::Environment>();
  world_ = std::make_unique<mpi::Comm>(mpi::Comm::duplicate(MPI_COMM_WORLD));
  rank_ = world_->rank();
  size_ = world_->size();
}

void Ranks::together(const std::function<void()>& step) const {
  if (size_ == 1) return step();
  ExitCode code = ExitCode::kDone;
  std::string message;
  try {
    step();
  } catch (...) {
    std::tie(code, message) = describe_failure();
  }
  const std::int64_t failed = code == ExitCode::kDone ? 0 : size_ - rank_;
  const std::int64_t first = world_->max(failed);
  if (first == 0) return;
  const int speaker = size_ - static_cast<int>(first);
  if (rank_ == speaker) {
    unmute();
    print_message(fmt::format("nestplan: {}", message));
  }
  world_->broadcast(std::as_writable_bytes(std::span(&code, 1)), speaker);
  throw AgreedFailure(code);
}

ExitCode Ranks::agree(ExitCode mine) const {
  if (size_ > 1) world_->broadcast(std::as_writable_bytes(std::span(&mine, 1)), 0);
  return mine;
}

void Ranks::refuse_lonely() const {
  const std::int64_t meant = mpi::processes_meant();
  // `mpirun -n 1` is one process on purpose.
  if (size_ > 1 || meant <= 1 || std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return;
  throw InvalidConfig(
      fmt::format("the batch system meant {} processes, but this is one on its own: start it with "
                  "mpirun or srun --mpi=pmix, or say --single-process",
                  meant));
}

void Ranks::end_all(ExitCode code) const {
  if (size_ > 1) world_->abort(static_cast<int>(code));
}

}  // namespace nestplan::cli

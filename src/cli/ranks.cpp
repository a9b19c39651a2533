#include "cli/ranks.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "cli/console.hpp"
#include "distributed/archive.hpp"
#include "nestplan/io/files.hpp"

namespace nestplan::cli {
namespace {

using std::chrono::milliseconds;

/// How long a rank that fails listens for others, and then for one of them to end the run.
constexpr milliseconds kListening{500};
constexpr milliseconds kPatience{10'000};
constexpr milliseconds kGlance{5};

}  // namespace

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

std::vector<std::string> Ranks::all_gather(const std::string& mine) const {
  if (size_ == 1) return {mine};
  std::vector<std::string> all;
  for (const auto& bytes : world_->all_gather(std::as_bytes(std::span(mine)))) {
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
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

void Ranks::refuse_different_arguments(std::span<const char* const> arguments) const {
  if (size_ == 1) return;
  std::string mine;
  for (const char* argument : arguments) (mine += argument) += '\0';
  std::string first = mine;
  distributed::broadcast(*world_, first);
  together([&] {
    if (mine != first) {
      throw InvalidConfig(
          fmt::format("rank {} was started with other arguments than rank 0", rank_));
    }
  });
}

std::string Ranks::read_text(const std::string& path) const {
  std::string text;
  together([&] {
    if (speaks()) text = io::read_text(path);
  });
  if (size_ > 1) distributed::broadcast(*world_, text);
  return text;
}

/// Tells the rank behind that this one has failed, and listens whether the one before has.
bool Ranks::rank_before_failed() const {
  constexpr std::byte kWord{};
  if (rank_ + 1 < size_) world_->send(std::span(&kWord, 1), rank_ + 1, mpi::Tag::kFinish);
  for (milliseconds waited{}; rank_ > 0 && waited < kListening; waited += kGlance) {
    if (world_->probe(mpi::Tag::kFinish)) return true;
    std::this_thread::sleep_for(kGlance);
  }
  return false;
}

void Ranks::end_all() const {
  if (size_ == 1) return;
  const auto [code, message] = describe_failure();
  bool told = false;
  try {
    told = rank_before_failed();
  } catch (const mpi::MpiError&) {
    // Nobody can be asked: this rank speaks for itself.
  }
  if (told) {
    std::this_thread::sleep_for(kPatience);
  } else {
    unmute();
    print_message(fmt::format("nestplan: rank {}: {}", rank_, message));
  }
  world_->abort(static_cast<int>(code));
}

}  // namespace nestplan::cli

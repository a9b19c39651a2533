#include "distributed/mpi_team.hpp"

#include <chrono>
#include <numeric>
#include <utility>

namespace nestplan::distributed {
namespace {

/// Adds the time from its making to its end to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), start_(Clock::now()) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_;
};

/// A request that keeps serving others while it is waited for.
class PendingRequest final : public solver::Pending {
 public:
  PendingRequest(mpi::Request request, const std::function<void()>& meanwhile, double& waited_s)
      : request_(std::move(request)), meanwhile_(meanwhile), waited_s_(waited_s) {}
  bool test() override { return request_.test(); }
  void wait() override {
    const Stopwatch watch(waited_s_);
    while (!request_.test()) {
      if (meanwhile_) meanwhile_();
    }
  }

 private:
  mpi::Request request_;
  const std::function<void()>& meanwhile_;
  double& waited_s_;
};

/// Counts and offsets of a gather live as long as it does.
class PendingGather final : public solver::Pending {
 public:
  PendingGather(const mpi::Comm& comm, std::span<const double> mine, std::span<const int> counts,
                double* all, const std::function<void()>& meanwhile, double& waited_s)
      : counts_(counts.begin(), counts.end()), offsets_(counts.size(), 0) {
    std::exclusive_scan(counts_.begin(), counts_.end(), offsets_.begin(), 0);
    request_ = std::make_unique<PendingRequest>(
        comm.all_gather_doubles(mine, counts_, offsets_, all), meanwhile, waited_s);
  }
  bool test() override { return request_->test(); }
  void wait() override { request_->wait(); }

 private:
  std::vector<int> counts_, offsets_;
  std::unique_ptr<PendingRequest> request_;
};

}  // namespace

MpiTeam::MpiTeam(mpi::Comm comm, solver::Grid grid, std::function<void()> meanwhile)
    : comm_(std::move(comm)),
      grid_(grid),
      rank_(comm_.rank()),
      block_(comm_.split(rank_ / grid.downsets, rank_ % grid.downsets)),
      meanwhile_(std::move(meanwhile)) {}

std::vector<std::vector<std::byte>> MpiTeam::all_gather(std::span<const std::byte> mine) {
  const Stopwatch watch(waited_s_);
  sent_bytes_ += static_cast<double>(mine.size()) * (grid_.size() - 1);
  return comm_.all_gather(mine);
}

void MpiTeam::broadcast(std::span<std::byte> data) {
  const Stopwatch watch(waited_s_);
  comm_.broadcast(data, 0);
}

std::unique_ptr<solver::Pending> MpiTeam::gather_rows(std::span<const double> mine,
                                                      std::span<const int> counts, double* all) {
  sent_bytes_ += static_cast<double>(mine.size_bytes()) * (grid_.downsets - 1);
  return std::make_unique<PendingGather>(block_, mine, counts, all, meanwhile_, waited_s_);
}

std::unique_ptr<solver::Pending> MpiTeam::send_band(std::span<const double> band) {
  sent_bytes_ += static_cast<double>(band.size_bytes());
  return std::make_unique<PendingRequest>(
      comm_.send_doubles(band, rank_ + grid_.downsets, mpi::Tag::kBand), meanwhile_, waited_s_);
}

std::unique_ptr<solver::Pending> MpiTeam::receive_band(std::span<double> band) {
  return std::make_unique<PendingRequest>(
      comm_.receive_doubles(band, rank_ - grid_.downsets, mpi::Tag::kBand), meanwhile_, waited_s_);
}

void MpiTeam::progress() {
  if (meanwhile_) meanwhile_();
  block_.progress();
}

}  // namespace nestplan::distributed

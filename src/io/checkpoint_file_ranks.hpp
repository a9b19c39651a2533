#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace nestplan::mpi {
class Comm;
}  // namespace nestplan::mpi

namespace nestplan::io {

/// The ranks that use a checkpoint together, or this process alone, for which MPI is not needed.
/// All calls are collective unless they say otherwise.
class Ranks {
 public:
  explicit Ranks(const mpi::Comm* comm);

  const mpi::Comm* comm() const { return comm_; }  ///< null: this process alone
  int rank() const { return rank_; }               ///< not collective
  int size() const { return size_; }               ///< not collective

  /// Runs `work` on every rank and throws on all of them if it throws on any: what the first of
  /// those threw, on other ranks as the error of nestplan with the same exit code. No rank is left
  /// waiting if all talk to each other through functions of this class alone, at the latest at the
  /// next `agree`: a rank that failed in between takes part in that of the others by `fail`.
  void agree(const std::function<void()>& work) const;
  /// Also throws InternalError where the ranks do not all give the same `call`.
  void agree(const std::function<void()>& work, std::uint64_t call) const;
  [[noreturn]] void fail(const std::exception_ptr& error) const;

  void broadcast(std::span<std::byte> data) const;  ///< from rank 0
  std::string broadcast(const std::string& text) const;
  std::uint64_t broadcast(std::uint64_t value) const;
  bool all_equal(std::uint64_t value) const;
  bool any(bool value) const;
  void sum(std::span<std::uint64_t> values) const;  ///< modulo 2^64

  /// How many words go to every rank → how many come from every rank.
  std::vector<int> exchange_counts(const std::vector<int>& counts) const;
  /// What is `sent` to every rank, by rank, and `received` from every rank, by rank.
  void exchange(std::span<const double> sent, const std::vector<int>& to,
                std::span<double> received, const std::vector<int>& from) const;

 private:
  void settle(const std::exception_ptr& error, std::uint64_t call) const;

  const mpi::Comm* comm_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace nestplan::io

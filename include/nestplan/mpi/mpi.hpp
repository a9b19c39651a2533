#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nestplan/util/errors.hpp"

namespace nestplan::mpi {

/// An MPI call failed; the message has MPI's own words.
class MpiError : public Error {
 public:
  explicit MpiError(const std::string& message) : Error(ExitCode::kSystemFailure, message) {}
};

/// Throws MpiError unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

/// Message tags of the whole program.
enum class Tag : int { kBand = 1, kRequest, kReply, kArrival, kCall, kFinish };

/// A nonblocking operation, waited for at the latest when it goes out of scope.
class Request {
 public:
  Request() = default;
  explicit Request(MPI_Request request) : request_(request) {}
  Request(Request&& other) noexcept : request_(other.request_) {
    other.request_ = MPI_REQUEST_NULL;
  }
  Request& operator=(Request&& other) noexcept;
  ~Request();

  bool test();
  void wait();

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// Memory that all ranks of a communicator share; its first rank allocates it.
class SharedMemory {
 public:
  /// `bytes` zeroed. *Collective over `node`*, whose ranks can share memory.
  SharedMemory(const class Comm& node, std::size_t bytes);
  /// *Collective*, but for a stack that an exception unwinds.
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }

  /// What any rank wrote before it, all ranks read after it. *Collective.*
  void synchronise() const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;  ///< of `node`
  MPI_Win window_ = MPI_WIN_NULL;
  std::byte* data_ = nullptr;
};

/// MPI counts are ints: bytes travel in pieces of no more than this, 1 GiB unless tests set less.
void set_most_bytes_at_once(std::size_t bytes);

/// A communicator of our own: errors come back as exceptions. Bytes may be of any number, doubles
/// up to 2^31 - 1 at once.
class Comm {
 public:
  Comm() = default;
  /// Duplicates `comm`. *Collective over `comm`.*
  static Comm duplicate(MPI_Comm comm);
  Comm(Comm&& other) noexcept : comm_(other.comm_) { other.comm_ = MPI_COMM_NULL; }
  Comm& operator=(Comm&& other) noexcept;
  ~Comm();

  int rank() const;
  int size() const;
  /// For libraries that speak MPI themselves; stays ours.
  MPI_Comm handle() const { return comm_; }

  /// Ranks with the same color, ordered by key. *Collective.*
  Comm split(int color, int key) const;
  /// Ranks that share memory. *Collective.*
  Comm split_by_node() const;

  /// *Collective.*
  void broadcast(std::span<std::byte> data, int root) const;
  /// Everybody's bytes, by rank. *Collective.*
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) const;
  Request all_gather_doubles(std::span<const double> mine, const std::vector<int>& counts,
                             const std::vector<int>& offsets, double* all) const;
  std::int64_t max(std::int64_t value) const;
  double sum(double value) const;
  double max(double value) const;
  double min(double value) const;

  void send(std::span<const std::byte> data, int to, Tag tag) const;
  std::vector<std::byte> receive(int from, Tag tag) const;
  /// Sender of a message that has arrived, if any.
  std::optional<int> probe(Tag tag) const;
  Request send_doubles(std::span<const double> data, int to, Tag tag) const;
  Request receive_doubles(std::span<double> data, int from, Tag tag) const;

  /// Lets messages move on.
  void progress() const;
  /// Ends every process of the run with that exit code.
  [[noreturn]] void abort(int code) const;

 private:
  explicit Comm(MPI_Comm comm);
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// MPI from `init` to `finalize`. Not finalized while an exception unwinds the stack: other ranks
/// may still be waiting for this one.
class Environment {
 public:
  Environment();
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
};

/// Whether a launcher (mpirun, srun with an MPI plugin) started this process. Only then is MPI
/// worth its start-up time.
bool started_by_launcher();

/// Number of processes that a batch system meant to start as far as the environment says: tasks of
/// a Slurm, PBS or LSF job. 1 if nothing is said.
std::int64_t processes_meant();

}  // namespace nestplan::mpi

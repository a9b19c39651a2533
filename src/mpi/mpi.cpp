#include "nestplan/mpi/mpi.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

namespace nestplan::mpi {
namespace {

std::size_t most_at_once = std::size_t{1} << 30;

int tag_of(Tag tag) { return static_cast<int>(tag); }

/// MPI counts are ints; whoever sends more has to cut it up.
int count_of(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw MpiError(fmt::format("a message of {} items is too long for MPI", count));
  }
  return static_cast<int>(count);
}

std::int64_t number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoll(text);
}

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError(fmt::format("{} failed: {}", call,
                             std::string(text.data(), static_cast<std::size_t>(length))));
}

Request& Request::operator=(Request&& other) noexcept {
  std::swap(request_, other.request_);
  return *this;
}

Request::~Request() {
  // While an exception unwinds the stack nobody may be left to complete it.
  if (request_ != MPI_REQUEST_NULL && std::uncaught_exceptions() == 0) {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
  }
}

bool Request::test() {
  int done = 0;
  check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

void Request::wait() { check(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait"); }

Comm::Comm(MPI_Comm comm) : comm_(comm) {
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

Comm Comm::duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return Comm(copy);
}

Comm& Comm::operator=(Comm&& other) noexcept {
  std::swap(comm_, other.comm_);
  return *this;
}

Comm::~Comm() {
  if (comm_ != MPI_COMM_NULL && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

int Comm::rank() const {
  int rank = 0;
  check(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
  return rank;
}

int Comm::size() const {
  int size = 0;
  check(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
  return size;
}

Comm Comm::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
  return Comm(part);
}

Comm Comm::split_by_node() const {
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &part),
        "MPI_Comm_split_type");
  return Comm(part);
}

void Comm::broadcast(std::span<std::byte> data, int root) const {
  for (std::size_t sent = 0; sent < data.size(); sent += most_at_once) {
    const std::size_t bytes = std::min(most_at_once, data.size() - sent);
    check(MPI_Bcast(data.data() + sent, static_cast<int>(bytes), MPI_BYTE, root, comm_),
          "MPI_Bcast");
  }
}

std::vector<std::vector<std::byte>> Comm::all_gather(std::span<const std::byte> mine) const {
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<std::uint64_t> sizes(ranks);
  const std::uint64_t own = mine.size();
  check(MPI_Allgather(&own, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, comm_),
        "MPI_Allgather");
  std::vector<std::vector<std::byte>> result(ranks);
  for (std::size_t r = 0; r < ranks; ++r) result[r].resize(sizes[r]);
  const std::size_t longest = *std::max_element(sizes.begin(), sizes.end());
  const std::size_t piece = std::max<std::size_t>(1, most_at_once / ranks);
  std::vector<int> counts(ranks), offsets(ranks);
  std::vector<std::byte> all;
  for (std::size_t sent = 0; sent < longest; sent += piece) {
    int total = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      counts[r] =
          static_cast<int>(std::min(piece, sizes[r] - std::min<std::size_t>(sent, sizes[r])));
      offsets[r] = std::exchange(total, total + counts[r]);
    }
    all.resize(static_cast<std::size_t>(total));
    const std::byte* next = mine.data() + std::min(sent, mine.size());
    check(MPI_Allgatherv(next, counts[static_cast<std::size_t>(rank())], MPI_BYTE, all.data(),
                         counts.data(), offsets.data(), MPI_BYTE, comm_),
          "MPI_Allgatherv");
    for (std::size_t r = 0; r < ranks; ++r) {
      if (counts[r] == 0) continue;
      std::memcpy(result[r].data() + sent, all.data() + offsets[r],
                  static_cast<std::size_t>(counts[r]));
    }
  }
  return result;
}

Request Comm::all_gather_doubles(std::span<const double> mine, const std::vector<int>& counts,
                                 const std::vector<int>& offsets, double* all) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgatherv(mine.data(), count_of(mine.size()), MPI_DOUBLE, all, counts.data(),
                        offsets.data(), MPI_DOUBLE, comm_, &request),
        "MPI_Iallgatherv");
  return Request(request);
}

namespace {

template <typename T>
T reduce(T value, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  T result{};
  check(MPI_Allreduce(&value, &result, 1, type, op, comm), "MPI_Allreduce");
  return result;
}

}  // namespace

std::int64_t Comm::max(std::int64_t value) const {
  return reduce(value, MPI_INT64_T, MPI_MAX, comm_);
}

double Comm::sum(double value) const { return reduce(value, MPI_DOUBLE, MPI_SUM, comm_); }

double Comm::max(double value) const { return reduce(value, MPI_DOUBLE, MPI_MAX, comm_); }

double Comm::min(double value) const { return reduce(value, MPI_DOUBLE, MPI_MIN, comm_); }

// The first piece is preceded by the size of all of them. Messages between two ranks with one tag
// do not overtake each other.
void Comm::send(std::span<const std::byte> data, int to, Tag tag) const {
  const std::uint64_t size = data.size();
  check(MPI_Send(&size, 1, MPI_UINT64_T, to, tag_of(tag), comm_), "MPI_Send");
  for (std::size_t sent = 0; sent < data.size(); sent += most_at_once) {
    const std::size_t bytes = std::min(most_at_once, data.size() - sent);
    check(MPI_Send(data.data() + sent, static_cast<int>(bytes), MPI_BYTE, to, tag_of(tag), comm_),
          "MPI_Send");
  }
}

std::vector<std::byte> Comm::receive(int from, Tag tag) const {
  std::uint64_t size = 0;
  check(MPI_Recv(&size, 1, MPI_UINT64_T, from, tag_of(tag), comm_, MPI_STATUS_IGNORE), "MPI_Recv");
  std::vector<std::byte> data(size);
  for (std::size_t had = 0; had < data.size(); had += most_at_once) {
    const std::size_t bytes = std::min(most_at_once, data.size() - had);
    check(MPI_Recv(data.data() + had, static_cast<int>(bytes), MPI_BYTE, from, tag_of(tag), comm_,
                   MPI_STATUS_IGNORE),
          "MPI_Recv");
  }
  return data;
}

void set_most_bytes_at_once(std::size_t bytes) { most_at_once = bytes; }

std::optional<int> Comm::probe(Tag tag) const {
  MPI_Status status;
  int arrived = 0;
  check(MPI_Iprobe(MPI_ANY_SOURCE, tag_of(tag), comm_, &arrived, &status), "MPI_Iprobe");
  if (arrived == 0) return std::nullopt;
  return status.MPI_SOURCE;
}

Request Comm::send_doubles(std::span<const double> data, int to, Tag tag) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(data.data(), count_of(data.size()), MPI_DOUBLE, to, tag_of(tag), comm_, &request),
        "MPI_Isend");
  return Request(request);
}

Request Comm::receive_doubles(std::span<double> data, int from, Tag tag) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check(
      MPI_Irecv(data.data(), count_of(data.size()), MPI_DOUBLE, from, tag_of(tag), comm_, &request),
      "MPI_Irecv");
  return Request(request);
}

void Comm::progress() const {
  int arrived = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &arrived, MPI_STATUS_IGNORE);
}

void Comm::abort(int code) const {
  MPI_Abort(comm_, code);
  std::_Exit(code);
}

SharedMemory::SharedMemory(const Comm& node, std::size_t bytes) : comm_(node.handle()) {
  const auto mine = static_cast<MPI_Aint>(node.rank() == 0 ? bytes : 0);
  void* own = nullptr;
  check(MPI_Win_allocate_shared(mine, 1, MPI_INFO_NULL, comm_, &own, &window_),
        "MPI_Win_allocate_shared");
  MPI_Aint size = 0;
  int unit = 0;
  void* first = nullptr;
  check(MPI_Win_shared_query(window_, 0, &size, &unit, &first), "MPI_Win_shared_query");
  data_ = static_cast<std::byte*>(first);
  check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
}

SharedMemory::~SharedMemory() {
  if (std::uncaught_exceptions() > 0) return;
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

void SharedMemory::synchronise() const {
  check(MPI_Win_sync(window_), "MPI_Win_sync");
  check(MPI_Barrier(comm_), "MPI_Barrier");
  check(MPI_Win_sync(window_), "MPI_Win_sync");
}

Environment::Environment() { check(MPI_Init(nullptr, nullptr), "MPI_Init"); }

Environment::~Environment() {
  if (std::uncaught_exceptions() == 0) MPI_Finalize();
}

bool started_by_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

std::int64_t processes_meant() {
  std::int64_t most = 1;
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "PBS_NP", "LSB_DJOB_NUMPROC"}) {
    most = std::max(most, number_in(name));
  }
  return most;
}

}  // namespace nestplan::mpi

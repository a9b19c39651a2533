#include "nestplan/mpi/mpi.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace nestplan::mpi {
namespace {

std::vector<std::byte> bytes_of(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

TEST(Comm, GathersUnevenBytes) {
  const Comm world = Comm::duplicate(MPI_COMM_WORLD);
  const auto mine = bytes_of(static_cast<std::size_t>(3 * world.rank()), world.rank());
  const auto all = world.all_gather(mine);
  EXPECT_EQ(all.size(), static_cast<std::size_t>(world.size()));
  for (int r = 0; r < world.size(); ++r) {
    EXPECT_EQ(all[static_cast<std::size_t>(r)], bytes_of(static_cast<std::size_t>(3 * r), r));
  }
}

TEST(Comm, BroadcastsFromAnyRank) {
  const Comm world = Comm::duplicate(MPI_COMM_WORLD);
  for (int root = 0; root < world.size(); ++root) {
    auto data = bytes_of(1000, world.rank() == root ? 7 + root : 0);
    world.broadcast(data, root);
    EXPECT_EQ(data, bytes_of(1000, 7 + root));
  }
}

TEST(Comm, CutsWhatIsTooLongForOneMessage) {
  const Comm world = Comm::duplicate(MPI_COMM_WORLD);
  for (const std::size_t most : {1U, 7U, 1000U}) {
    set_most_bytes_at_once(most);
    const auto pattern = [](int rank) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(501 * rank));
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
      return bytes;
    };
    const auto all = world.all_gather(pattern(world.rank()));
    for (int r = 0; r < world.size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], pattern(r));
    auto data = world.rank() == 0 ? pattern(3) : std::vector<std::byte>(pattern(3).size());
    world.broadcast(data, 0);
    EXPECT_EQ(data, pattern(3));
    if (world.rank() == 0) {
      for (int r = 1; r < world.size(); ++r) EXPECT_EQ(world.receive(r, Tag::kReply), pattern(r));
    } else {
      world.send(pattern(world.rank()), 0, Tag::kReply);
    }
  }
  set_most_bytes_at_once(std::size_t{1} << 30);
}

TEST(Comm, SharesMemoryOfANode) {
  const Comm world = Comm::duplicate(MPI_COMM_WORLD);
  const Comm node = world.split_by_node();
  const SharedMemory memory(node, 100);
  if (node.rank() == 0) std::memset(memory.data(), 42, 100);
  memory.synchronise();
  EXPECT_EQ(memory.data()[99], std::byte{42});
  memory.synchronise();
}

TEST(Comm, SplitsByColor) {
  const Comm world = Comm::duplicate(MPI_COMM_WORLD);
  const Comm part = world.split(world.rank() % 2, -world.rank());
  EXPECT_EQ(part.size(), (world.size() + 1 - world.rank() % 2) / 2);
  // keys fall with the rank, so the order is reversed
  EXPECT_EQ(part.rank(), part.size() - 1 - world.rank() / 2);
}

TEST(Comm, SendsDoublesAround) {
  const Comm world = Comm::duplicate(MPI_COMM_WORLD);
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  std::vector<double> out(5000);
  std::iota(out.begin(), out.end(), world.rank());
  std::vector<double> in(out.size(), -1);
  Request receive = world.receive_doubles(in, previous, Tag::kBand);
  Request send = world.send_doubles(out, next, Tag::kBand);
  receive.wait();
  send.wait();
  EXPECT_EQ(in.front(), previous);
  EXPECT_EQ(in.back(), previous + 4999);
}

TEST(Comm, ReportsAnMpiErrorAsException) {
  const Comm world = Comm::duplicate(MPI_COMM_WORLD);
  EXPECT_THROW(world.send({}, world.size() + 5, Tag::kRequest), MpiError);
}

TEST(Comm, Reduces) {
  const Comm world = Comm::duplicate(MPI_COMM_WORLD);
  EXPECT_EQ(world.max(std::int64_t{world.rank()}), world.size() - 1);
  EXPECT_EQ(world.sum(1.0), world.size());
  EXPECT_EQ(world.min(1.0 + world.rank()), 1.0);
}

}  // namespace
}  // namespace nestplan::mpi

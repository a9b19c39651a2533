#include <gtest/gtest.h>

#include <memory>

#include "nestplan/mpi/mpi.hpp"

/// Runs GoogleTest on every rank; only the first prints. A failure on any rank fails the run.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const nestplan::mpi::Environment environment;
  const auto world = nestplan::mpi::Comm::duplicate(MPI_COMM_WORLD);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (world.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  const int failed = RUN_ALL_TESTS();
  const std::int64_t any = world.max(std::int64_t{failed});
  if (failed == 0 && any != 0 && world.rank() == 0) {
    printf("[  FAILED  ] on another rank\n");
  }
  return static_cast<int>(any);
}

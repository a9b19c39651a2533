#pragma once

#include "bench/first_table.hpp"
#include "distributed/performance.hpp"
#include "nestplan/mpi/mpi.hpp"

namespace nestplan::bench {

/// Measures the constants of the performance model, each as the least of several runs, with all
/// ranks at it at the same time. Messages need two ranks; without, they are those of
/// `distributed::measured_machine`. *Collective over `world`.*
distributed::Machine measure_machine(const FirstTable& table, const mpi::Comm& world);

}  // namespace nestplan::bench

#include "solver/kernels.hpp"

namespace nestplan::solver {

NESTPLAN_VECTOR_CLONES
void relax_sum(Ticks* __restrict row, const Ticks* __restrict next, Ticks add, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Ticks candidate = next[i] + add;
    row[i] = candidate < row[i] ? candidate : row[i];
  }
}

NESTPLAN_VECTOR_CLONES
void relax_bottleneck(Ticks* __restrict row, const Ticks* __restrict next, Ticks stage,
                      std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Ticks candidate = next[i] < stage ? stage : next[i];
    row[i] = candidate < row[i] ? candidate : row[i];
  }
}

NESTPLAN_VECTOR_CLONES
void relax(Ticks* __restrict row, const Ticks* __restrict next, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) row[i] = next[i] < row[i] ? next[i] : row[i];
}

}  // namespace nestplan::solver

#pragma once

#include <algorithm>
#include <cstdint>

#include "solver/ticks.hpp"

namespace nestplan::solver {

// The inner loops of the table. One clone for AVX2 and one for any x86-64; the loader picks. All of
// them round nothing, so every clone gives the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define NESTPLAN_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define NESTPLAN_VECTOR_CLONES
#endif

/// row[i] = min(row[i], next[i] + add).
void relax_sum(Ticks* __restrict row, const Ticks* __restrict next, Ticks add, std::int64_t n);

/// row[i] = min(row[i], max(next[i], stage)).
void relax_bottleneck(Ticks* __restrict row, const Ticks* __restrict next, Ticks stage,
                      std::int64_t n);

/// row[i] = min(row[i], next[i]).
void relax(Ticks* __restrict row, const Ticks* __restrict next, std::int64_t n);

}  // namespace nestplan::solver

// How the kernels use the vectors of the machine and stay the same in every bit.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

// The widest vectors of the machine that runs, chosen once when the program is loaded. Every
// operation in these loops is correctly rounded and none is fused (-ffp-contract=off), so all
// clones compute the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MUSTER_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MUSTER_VECTOR_CLONES
#endif

namespace muster::inline v0_1::optim::internal {

// Numbers are added in this many sums, whatever the vectors of the machine.
inline constexpr int64_t kLanes = 16;

inline double total(const double* lanes) {
  double sum = 0;
  for (int64_t l = 0; l < kLanes; ++l) sum += lanes[l];
  return sum;
}

}  // namespace muster::inline v0_1::optim::internal

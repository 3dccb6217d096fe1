// What number libraries read from the environment when they are loaded, before main(), and would
// otherwise guess badly. Thread safety: const.
#pragma once

#include <optional>
#include <string>

#include "muster/base/environment.h"

namespace muster {

// The OPENBLAS_CORETYPE to start programs with; nothing when OpenBLAS chooses well by itself or the
// user has chosen. OpenBLAS before 0.3.22 takes AMD processors with AVX-512 for older ones without
// (its AVX-512 kernels made a training step here 1.5 times as fast).
std::optional<std::string> openblas_core_type(const Environment& environment);

// Microseconds-long spins instead of GNU OpenMP's milliseconds for threads that wait for others;
// beside a busy neighbour the default makes a program of two threads twenty times slower. Nothing
// when the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY.
std::optional<std::string> openmp_spin_count(const Environment& environment);

}  // namespace muster

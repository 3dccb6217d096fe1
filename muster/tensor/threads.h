// Sets how many threads LibTorch and BLAS may use for one task. Every thread of ours first applies
// that count to itself. Thread safety: functions from any thread.
#pragma once

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Sets the intra-op thread count of this process; `threads` <= 0 means MUSTER_THREADS, else
// OMP_NUM_THREADS, else the cores this process may run on, of which processes that a launcher
// started on one machine and did not bind to cores have equal shares. Returns the count in force.
// Throws InvalidArgument for a MUSTER_THREADS that is not a positive number.
MUSTER_PART_EXPORT int set_threads(int threads);
// Returns the count in force.
int num_threads();

// Applies the count to the calling thread: LibTorch keeps it per thread and BLAS does not see it
// otherwise.
MUSTER_PART_EXPORT void enter_thread();

}  // namespace muster::inline v0_1

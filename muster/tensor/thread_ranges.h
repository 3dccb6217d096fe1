// Divides a computation of ours over the threads that LibTorch's operations use.
#pragma once

#include <cstdint>
#include <functional>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Calls `work(begin, end)` for ranges that together are [0, count), each of at least `grain`
// numbers except the last; in parallel on at most at::get_num_threads() threads, or once on this
// thread where `count` is at most `grain` or an operation of LibTorch already runs in parallel. The
// ranges depend only on `count`, `grain` and the number of threads. An exception of `work` is
// thrown here after all ranges have ended. at::parallel_for() does this only in code that is
// compiled with -fopenmp, and calls its function on one thread otherwise.
MUSTER_PART_EXPORT void over_ranges(int64_t count, int64_t grain,
                                    const std::function<void(int64_t begin, int64_t end)>& work);

}  // namespace muster::inline v0_1

// The replicas of one process, each in a thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "muster/train/input_fn.h"

namespace muster::inline v0_1 {

// A replica's work. One that fails calls `failing` first, and then makes the others end.
using ReplicaFn = std::function<void(size_t replica, const std::function<void()>& failing)>;
// Calls `run(0)` on this thread and the others on threads of their own, and returns when all are
// through; the threads LibTorch may use are shared out among them meanwhile. Throws what the first
// to fail threw; after `patience`, and ever more rarely, a warning says which replicas have not
// ended since: a thread that hangs can only be ended together with its process.
void run_replicas(size_t count, const ReplicaFn& run,
                  std::chrono::duration<double> patience = std::chrono::seconds(10));

// `input_fn`, called by whichever replica comes first; the others get the same data set.
// Thread safety: any threads.
InputFn called_once(const InputFn& input_fn);

}  // namespace muster::inline v0_1

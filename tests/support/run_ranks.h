// n tasks of a distributed test as threads of the test.
#pragma once

#include <chrono>
#include <functional>

namespace muster::inline v0_1::testing {

// Calls fn(0), ..., fn(n - 1), each on a thread of its own, and returns when all have. Throws the
// error of the first failing rank (in time). Ranks that are still running at the deadline are named
// on standard error and the test process ends: threads cannot be stopped from outside.
void run_ranks(int n, const std::function<void(int rank)>& fn,
               std::chrono::milliseconds deadline = std::chrono::seconds(40));

}  // namespace muster::inline v0_1::testing

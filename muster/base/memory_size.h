// How much memory a task may use. Thread safety: any thread.
#pragma once

#include <cstdint>

namespace muster::inline v0_1 {

// The tightest limit on this process's memory by its control groups, in bytes; 0 without one.
uint64_t memory_limit();
// That limit, or the memory of the machine where it is less.
uint64_t memory_size();

}  // namespace muster::inline v0_1

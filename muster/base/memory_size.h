// Tells how much memory a task may use. Thread safety: any thread.
#pragma once

#include <cstdint>

namespace muster::inline v0_1 {

// The lowest limit that control groups set on the memory of this process, in bytes; 0 without a
// limit.
uint64_t memory_limit();
// The smaller of that limit and the memory of the machine, in bytes.
uint64_t memory_size();

}  // namespace muster::inline v0_1

// What tells a process of a task from the one before it. Thread safety: a pure function.
#pragma once

#include <cstdint>
#include <random>

namespace muster::inline v0_1::ps {

// A random number, never 0.
inline uint64_t new_incarnation() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) | 1;
}

}  // namespace muster::inline v0_1::ps

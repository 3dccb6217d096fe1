// Waits that are too short to sleep. Thread safety: pure functions.
#pragma once

#include <chrono>

namespace muster::inline v0_1::internal {

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Evaluates `condition` up to a number of times; returns whether it became true.
template <typename Condition>
bool spin(int times, Condition condition) {
  for (int i = 0; i < times; ++i) {
    if (condition()) return true;
    pause_briefly();
  }
  return false;
}

// The same for a duration.
template <typename Condition>
bool spin_for(std::chrono::microseconds time, Condition condition) {
  constexpr int kSpins = 16;  // between two looks at the clock
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    if (spin(kSpins, condition)) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Before a wait gives its core away.
inline constexpr auto kSpinTime = std::chrono::microseconds(30);

}  // namespace muster::inline v0_1::internal

// Waiting for a condition that another thread or process makes true without a notice, for tests:
// the condition is checked again and again, for a minute at most. Thread safety: pure functions.
#pragma once

#include <chrono>
#include <source_location>
#include <string>
#include <thread>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

// Whether the condition becomes true within a minute. A condition that was true once may be false
// again, so it is not checked a second time.
template <typename Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Waits for it. Throws Timeout, which fails the test, and names the place of the call.
template <typename Condition>
void await(const Condition& condition,
           const std::source_location& where = std::source_location::current()) {
  if (comes_true(condition)) return;
  throw Error(ErrorKind::kTimeout, std::string(where.file_name()) + ":" +
                                       std::to_string(where.line()) +
                                       ": what is waited for has not come for a minute");
}

}  // namespace muster::inline v0_1

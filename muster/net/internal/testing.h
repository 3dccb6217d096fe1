// Helpers that tests of this folder share: their patience, and the log. Thread safety: none.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "muster/base/log.h"

namespace muster::inline v0_1::net {

inline constexpr int kSoon = 30000;  // ms, for events that come at once
inline constexpr double kLong = 60;  // s, for events that must come

// The log of `work`.
template <typename Work>
std::string log_of(Work work) {
  ::testing::internal::CaptureStderr();
  work();
  log::flush();
  return ::testing::internal::GetCapturedStderr();
}

}  // namespace muster::inline v0_1::net

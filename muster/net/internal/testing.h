// What tests of this folder share: their patience, and the log. Thread safety: none.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "muster/base/log.h"

namespace muster::inline v0_1::net {

inline constexpr int kSoon = 30000;  // ms, for what comes at once
inline constexpr double kLong = 60;  // s, for what must not be waited for in vain

// What stands in the log of `work`.
template <typename Work>
std::string log_of(Work work) {
  ::testing::internal::CaptureStderr();
  work();
  log::flush();
  return ::testing::internal::GetCapturedStderr();
}

}  // namespace muster::inline v0_1::net

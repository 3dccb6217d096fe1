// Tests of optimizers share how they read an error.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "muster/base/error.h"

namespace muster::inline v0_1::optim::testing {

// Returns "message | hint" of the InvalidArgument that `fn` throws.
inline std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return std::string(error.message()) + " | " + error.hint();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

}  // namespace muster::inline v0_1::optim::testing

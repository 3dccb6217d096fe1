// Errors that name the estimator. Thread safety: a pure function.
#pragma once

#include <string>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {

// Returns the result of `make`; the message of its Error then begins with "<estimator>: ".
template <typename Make>
auto with_error_context(const std::string& estimator, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw Error(error.kind(), estimator + ": " + error.message(), error.hint());
  }
}

}  // namespace muster::inline v0_1::internal

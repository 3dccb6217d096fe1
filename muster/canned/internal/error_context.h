// Errors that say which estimator was asked for. Thread safety: a pure function.
#pragma once

#include <string>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {

// Gives what `make` does; of an Error that it throws, the message then begins with "<estimator>: ".
template <typename Make>
auto with_error_context(const std::string& estimator, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw Error(error.kind(), estimator + ": " + error.message(), error.hint());
  }
}

}  // namespace muster::inline v0_1::internal

// For tests. Thread safety: const.
#pragma once

#include <stdexcept>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

// The Error that `call` throws. Throws std::logic_error, which fails the test, when it throws none.
template <typename Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("no error was thrown");
}

}  // namespace muster::inline v0_1

// Catches errors, for tests. Thread safety: pure functions.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

// Returns the Error that `call` throws. Throws std::logic_error, which fails the test, when `call`
// throws none.
template <typename Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("no error was thrown");
}

// Returns the message of the InvalidArgument that `call` throws. Throws std::logic_error, which
// fails the test, when `call` throws none or an Error of another kind.
template <typename Call>
std::string message_of(Call&& call) {
  const Error error = error_of(std::forward<Call>(call));
  if (error.kind() != ErrorKind::kInvalidArgument)
    throw std::logic_error(std::string("not an InvalidArgument: ") + error.what());
  return error.message();
}

}  // namespace muster::inline v0_1

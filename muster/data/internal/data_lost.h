// Errors that represent more than one element. Thread safety: pure functions.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::data::internal {

// The error of a file that does not open, of data that cannot be read on, of a stage that gives up
// its input: all later elements are lost with it. An error of one element may be skipped like the
// element; this one may not, or a pipeline would silently be shorter than its data. It takes one
// place in the order, and passes through every stage: only ignore_errors() leaves it out.
class DataLost final : public Error {
 public:
  explicit DataLost(Error error) : Error(std::move(error)) {}
};

// The exception being handled, as current_failure() gives it, as a DataLost.
std::exception_ptr current_loss(const std::string& stage = "");

bool is_lost(const std::exception_ptr& error);

// Puts `error` into `*lost` if it is a DataLost. Does nothing if `*lost` is set already, and with a
// null pointer.
void note_lost(const std::exception_ptr& error, std::exception_ptr* lost);

}  // namespace muster::inline v0_1::data::internal

// Rewrites LibTorch's own exceptions for users. Thread safety: pure functions.
#pragma once

#include <functional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/export.h"

namespace c10 {
class Error;
}

namespace muster::inline v0_1 {

// Returns the message without the part for LibTorch's developers.
MUSTER_PART_EXPORT std::string text_of(const c10::Error& error);
// Converts an exception of LibTorch: `message` names the place, and ends with text_of() of it.
// Internal if memory ran out or the machine failed; otherwise the program is to blame:
// InvalidArgument with the result of `hint`.
Error converted_error(const std::string& message, const std::function<std::string()>& hint);
// Tells whether the message says that tensors of several devices met in one operation.
bool tells_of_mixed_devices(const std::string& text);

}  // namespace muster::inline v0_1

// Puts LibTorch's own exceptions into words for users. Thread safety: pure functions.
#pragma once

#include <functional>
#include <string>

#include "muster/base/error.h"

namespace c10 {
class Error;
}

namespace muster::inline v0_1 {

// Gives the message without what follows for LibTorch's developers.
std::string text_of(const c10::Error& error);
// Converts what LibTorch threw: `message` says where, and ends with text_of() of it. Internal when
// memory ran out or the machine failed; else the program is to blame: InvalidArgument with the hint
// that `hint` gives.
Error converted_error(const std::string& message, const std::function<std::string()>& hint);
// Tells whether the message says that tensors of several devices met in one operation.
bool tells_of_mixed_devices(const std::string& text);

}  // namespace muster::inline v0_1

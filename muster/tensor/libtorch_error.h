// Puts LibTorch's own exceptions into words for users. Thread safety: pure functions.
#pragma once

#include <string>

namespace c10 {
class Error;
}

namespace muster::inline v0_1 {

// Gives the message without what follows for LibTorch's developers.
std::string text_of(const c10::Error& error);
// Tells whether the message says that tensors of several devices met in one operation.
bool tells_of_mixed_devices(const std::string& text);
// Whether that says that memory ran out.
bool tells_of_memory(const std::string& text);
// Whether that says that a device or LibTorch itself failed, and not that its arguments were wrong.
bool tells_of_machine(const std::string& text);

}  // namespace muster::inline v0_1

// Names a value of an element, for messages. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/error.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// Returns the way to leaf `leaf`, counted as in Element::values(), through the parts of an element:
// "age", "[0].age". It is empty if the leaf is all there is.
std::string leaf_name(const Structure& structure, int64_t leaf);

// Returns `error` with that name in front of its message.
Error with_leaf_name(const Error& error, const Structure& structure, size_t leaf);

}  // namespace muster::inline v0_1

// One element as a batch of one row, which is how a reader gives it.
#pragma once

#include "muster/tensor/element.h"

namespace muster::inline v0_1::data::internal {

// Copies tensors, because a program may write to its own. `source` names who gave the element.
// Throws InvalidArgument for an undefined tensor.
Element element_as_row(const Element& element, const char* source);

}  // namespace muster::inline v0_1::data::internal

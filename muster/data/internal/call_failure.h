// The error when a function of the user fails on an element. Thread safety: pure functions.
#pragma once

#include <exception>

#include "muster/data/internal/node.h"
#include "muster/data/internal/place.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data::internal {

// The exception being handled, as an Error that names the stage, the element and the pipeline.
std::exception_ptr call_failure(const Node& node, const Place& from, const Element& element);

}  // namespace muster::inline v0_1::data::internal

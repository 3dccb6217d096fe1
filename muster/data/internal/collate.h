// Collating: elements become the rows of one batch. Thread safety: pure functions.
#pragma once

#include <span>

#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// StreamElement i as row i of one element. Throws InvalidArgument if they do not fit into one
// batch. REQUIRES: none is an error.
Element collate(std::span<StreamElement> items);

}  // namespace muster::inline v0_1::data::internal

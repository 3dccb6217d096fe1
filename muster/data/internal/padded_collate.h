// Collating with padding: elements of unequal shapes become the rows of one batch. Thread safety:
// pure functions.
#pragma once

#include <span>

#include "muster/data/dataset.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// StreamElement i as row i of one element, each value padded to the largest of its rows, or to the
// requested shape. Throws InvalidArgument if padding cannot make them equal, Corrupt for one larger
// than the requested shape. REQUIRES: none is an error.
Element collate_padded(std::span<StreamElement> items, const PaddingOptions& padding);

}  // namespace muster::inline v0_1::data::internal

// Elements as bytes, for files that the pipeline keeps for itself. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/base/bytes.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// The structure and the values of an element. Tensors are copied to the CPU.
std::string encode_values(const Element& element);
// The same after the tag of the element.
std::string encode_element(const StreamElement& item);
// Throw Corrupt for bytes that the functions above did not make.
Element decode_values(Bytes bytes);
StreamElement decode_element(Bytes bytes);

}  // namespace muster::inline v0_1::data::internal

// Elements as bytes, for files that the pipeline keeps for itself. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/base/bytes.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// The element and the tag of an element. Tensors are copied to the CPU.
std::string encode_element(const StreamElement& item);
// Throws Corrupt for bytes that encode_element() did not make.
StreamElement decode_element(Bytes bytes);

}  // namespace muster::inline v0_1::data::internal

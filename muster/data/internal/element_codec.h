// Elements as bytes, for files that the pipeline keeps for itself. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/base/bytes.h"
#include "muster/data/internal/items.h"

namespace muster::inline v0_1::data::internal {

// The element and the tag of an item. Tensors are copied to the CPU.
std::string encode_item(const Item& item);
// Throws Corrupt for bytes that encode_item() did not make.
Item decode_item(Bytes bytes);

}  // namespace muster::inline v0_1::data::internal

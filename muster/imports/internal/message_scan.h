// A look at the bytes of an ONNX file before Protobuf reads them. Thread safety: a pure function.
#pragma once

#include "muster/base/bytes.h"

namespace muster::inline v0_1::onnx::internal {

// Whether the bytes are messages of whole fields, in which nodes, attributes, tensors and functions
// have the bytes that they cannot do without. An empty message costs two bytes, and Protobuf a few
// hundred of memory: see muster/base/parse_limits.h.
bool scan_messages(Bytes model);

}  // namespace muster::inline v0_1::onnx::internal

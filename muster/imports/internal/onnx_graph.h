// ONNX models, read and checked. For sources alone. Thread safety: a free function.
#pragma once

#include <string>

#include "muster/imports/internal/imported_graph.h"

namespace muster::inline v0_1::onnx::internal {

// Throws Corrupt for bytes that are no ONNX model, or one that contradicts itself: a node that
// takes what no earlier node makes, two values of one name, sizes that do not fit their bytes.
// Throws InvalidArgument ("not supported: ...") with the node for what Muster does not run.
ImportedModel read_onnx_graph(const std::string& bytes, const ModelPlace& place);

}  // namespace muster::inline v0_1::onnx::internal

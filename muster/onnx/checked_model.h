// A model of ONNX that ONNX's own library accepts. Thread safety: a free function.
#pragma once

#include <onnx/onnx_pb.h>

#include "muster/onnx/graph_of.h"

namespace muster::inline v0_1::onnx {

// Makes a model of the graph, which is empty afterwards, in opset 17. ONNX's checker has looked at
// it, and its shape inference has added the dtypes and shapes of all values. Throws Internal for a
// graph that they do not accept.
::onnx::ModelProto checked_model(ConvertedGraph& converted);

}  // namespace muster::inline v0_1::onnx

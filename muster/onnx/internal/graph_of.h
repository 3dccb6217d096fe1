// Converts the TorchScript graph of an export to an ONNX graph. For sources alone. Thread safety:
// free functions.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <vector>

#include "muster/export/model_format.h"

namespace muster::inline v0_1::onnx::internal {

struct ConvertedGraph {
  ::onnx::GraphProto graph{};
  // For each signature, the output of the graph that each of its outputs is.
  std::map<std::string, std::map<std::string, std::string>> outputs{};
  bool has_ml = false;  // some node is of ai.onnx.ml
};

// Inputs have the names of the signature. Outputs have those of serving_default; what only another
// signature has gets its name there, or "<signature>/<name>" if that is taken. A size of -1 is
// "batch" on axis 0 and "<input>_axis<n>" on another. Throws InvalidArgument ("not supported:
// ...") naming the operation that has no counterpart, and the nearest weight.
ConvertedGraph graph_of(const ExportedModel& model);

// The name of a free axis of an input.
std::string axis_name(const std::string& input, size_t axis);

}  // namespace muster::inline v0_1::onnx::internal

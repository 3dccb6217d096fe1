// Writes the ONNX graph of a model as nodes of a TensorFlow graph. For sources alone. Thread
// safety: free functions.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/savedmodel/internal/call.h"
#include "muster/savedmodel/internal/tensorflow_graph.h"

namespace muster::inline v0_1::saved_model::internal {

struct WrittenModel {
  std::map<std::string, std::string> outputs{};  // by their names in ONNX
  std::vector<GraphVariable> variables{};
};

// Adds the nodes of the model, with inferred shapes, to the graph. `inputs` has the values that its
// inputs are, and `weights` the initializers that become variables; the others become constants.
// The result refers to the model. Throws InvalidArgument ("not supported: ...") naming an operation
// that has no counterpart.
WrittenModel write_model(const ::onnx::GraphProto& model, const std::set<std::string>& weights,
                         const std::map<std::string, std::string>& inputs, TensorflowGraph& graph);

}  // namespace muster::inline v0_1::saved_model::internal

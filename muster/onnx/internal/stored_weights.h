// Weights of an ONNX graph in fewer bits. For sources alone. Thread safety: pure functions of their
// arguments.
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>

namespace muster::inline v0_1::onnx::internal {

// Stores weights of float32 as `kind` says, and adds the nodes that make numbers of them again; see
// OnnxOptions::weights for the kinds. `weights` are the names of the initializers that are weights.
// Throws InvalidArgument for an unknown kind.
void store_weights(::onnx::GraphProto& graph, const std::set<std::string>& weights,
                   const std::string& kind);

}  // namespace muster::inline v0_1::onnx::internal

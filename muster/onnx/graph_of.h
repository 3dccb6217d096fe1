// Converts the TorchScript graph of an export to an ONNX graph, which a file of ONNX contains, and
// which other formats are made of. Thread safety: free functions.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/export/model_format.h"

namespace muster::inline v0_1::onnx {

struct ConvertedGraph {
  ::onnx::GraphProto graph{};
  // For each signature, the output of the graph that each of its outputs is.
  std::map<std::string, std::map<std::string, std::string>> outputs{};
  // The initializers that are weights of the model. The others are constants of its operations.
  std::set<std::string> weights{};
  bool has_ml = false;  // some node is of ai.onnx.ml
};

struct ConvertOptions {
  // Whether boosted trees become one operation, TreeEnsembleRegressor. Else they are the operations
  // of the export, which take an example down all trees at once.
  bool tree_ensembles = true;
  // Whether loops of LSTM and GRU layers become the operations LSTM and GRU. Else they are a Loop.
  bool recurrent_operations = true;
};

// Inputs have the names of the signature. Outputs have those of serving_default; what only another
// signature has gets its name there, or "<signature>/<name>" if that is taken. A size of -1 is
// "batch" on axis 0 and "<input>_axis<n>" on another. Throws InvalidArgument ("not supported:
// ...") naming the operation that has no counterpart, and the nearest weight.
ConvertedGraph graph_of(const ExportedModel& model, const ConvertOptions& options = {});

// The name of a free axis of an input.
std::string axis_name(const std::string& input, size_t axis);

}  // namespace muster::inline v0_1::onnx

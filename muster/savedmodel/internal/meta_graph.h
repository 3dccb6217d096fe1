// The file saved_model.pb: the graph, its signatures, and how its variables are restored, in the
// form of TensorFlow's SavedModels of version 1, which tf.saved_model.load, TensorFlow Serving and
// converters read. Source of the format: tensorflow/core/protobuf/saved_model.proto,
// meta_graph.proto, saver.proto; tensorflow/core/framework/variable.proto. For sources alone.
// Thread safety: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/savedmodel/internal/lookup_tables.h"
#include "muster/savedmodel/internal/model_graph.h"
#include "muster/savedmodel/internal/tensorflow_graph.h"

namespace muster::inline v0_1::saved_model::internal {

// A value of the graph as a signature has it.
struct SignatureTensor {
  std::string value{};
  BundleDtype dtype = BundleDtype::kFloat;
  std::vector<int64_t> shape{};
};

struct GraphSignature {
  std::string method{};  // "predict", "classify" or "regress"
  std::map<std::string, SignatureTensor> inputs{}, outputs{};
};

struct MetaGraph {
  std::map<std::string, GraphSignature> signatures{};
  std::vector<GraphVariable> variables{};
  std::map<std::string, Asset> assets{};  // the files in assets/, by name
  std::string initializer{};              // the node to run after loading; empty: none
};

// The bytes of the file. Adds the nodes that save and restore the variables to the graph.
std::string encode_saved_model(const MetaGraph& meta, TensorflowGraph& graph);

}  // namespace muster::inline v0_1::saved_model::internal

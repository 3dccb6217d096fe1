// The graph of a SavedModel that a signature asks for, with its functions in place of their calls.
// For sources alone. Thread safety: a free function.
#pragma once

#include <string>
#include <vector>

#include "muster/bundles/saved_model_file.h"
#include "muster/imports/internal/imported_graph.h"
#include "muster/imports/internal/tensorflow_variables.h"

namespace muster::inline v0_1::imports {

// A signature as a model. Inputs and outputs are in the order of their names.
struct SignatureModel {
  onnx::internal::ImportedModel model;
  // kClassify: the names of the classes, if the graph has them as constants.
  std::vector<std::string> classes{};
  // Outputs that are texts, and are left out.
  std::vector<std::string> texts{};
};

// Reads the nodes that the outputs of the signature need. If an input is a batch of serialized
// tf.Examples, the inputs are the features of fixed shape that the graph parses of them. Throws
// Corrupt for a graph that contradicts itself: cycles, missing nodes, functions and attributes;
// InvalidArgument ("not supported: ...") with the node for what Muster does not run; and the errors
// of reading variables.
SignatureModel read_signature(const tensorflow::SavedModelFile& file,
                              const tensorflow::SavedSignature& signature,
                              TensorflowVariables& variables,
                              const onnx::internal::ModelPlace& place);

}  // namespace muster::inline v0_1::imports

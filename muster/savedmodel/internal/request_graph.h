// What is before the model in a SavedModel: the ways to call it, and the nodes that make the
// model's inputs from tf.Examples, or from texts. For sources alone. Thread safety: one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/export/model_format.h"
#include "muster/savedmodel/internal/lookup_tables.h"
#include "muster/savedmodel/internal/meta_graph.h"

namespace muster::inline v0_1::saved_model::internal {

// A way to call the model.
struct RequestForm {
  std::string prefix{};      // of the names of its signatures: "", "features:" or "tensors:"
  bool of_examples = false;  // `inputs` has one, serialized tf.Examples: string [-1]
  std::map<std::string, SignatureTensor> inputs{};
};

struct RequestGraph {
  std::map<std::string, std::string> inputs{};  // the nodes of the model's inputs, by name
  // The first is without a prefix: tf.Examples if the export takes them, as tf.estimator writes.
  // Else the features that feature columns read, or the tensors of the model. Other forms follow:
  // what feeds the graph at a later place.
  std::vector<RequestForm> forms{};
};

// Adds the nodes. Throws InvalidArgument ("not supported: ...") for a column without a counterpart.
RequestGraph add_requests(const ExportedModel& model, TensorflowGraph& graph, LookupTables& tables);

}  // namespace muster::inline v0_1::saved_model::internal

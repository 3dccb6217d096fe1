// A SymbolicTensor represents the output of a layer: it has a shape and a dtype, but no numbers.
// Calling layers on symbolic tensors makes a graph, and Functional makes a layer from it.
// Thread safety: immutable values.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class SymbolicTensor;

namespace internal {
struct GraphNode;
// Only Muster's graphs access the inside of a SymbolicTensor; muster/layers/internal/graph_node.h.
SymbolicTensor symbolic_output(std::shared_ptr<const GraphNode> node, size_t index);
// The node whose output the tensor is.
const std::shared_ptr<const GraphNode>& node_of(const SymbolicTensor& tensor);
// The index of the tensor among the outputs of its node.
size_t index_of(const SymbolicTensor& tensor);
}  // namespace internal

class MUSTER_EXPORT SymbolicTensor {
 public:
  // Axes whose size is known only when the layer runs are -1; the first axis is the batch, always
  // -1.
  const Shape& shape() const;
  DType dtype() const;

 private:
  friend SymbolicTensor internal::symbolic_output(std::shared_ptr<const internal::GraphNode> node,
                                                  size_t index);
  friend const std::shared_ptr<const internal::GraphNode>& internal::node_of(
      const SymbolicTensor& tensor);
  friend size_t internal::index_of(const SymbolicTensor& tensor);

  SymbolicTensor(std::shared_ptr<const internal::GraphNode> node, size_t index);

  std::shared_ptr<const internal::GraphNode> node_;
  size_t index_;  // among the node's outputs: tensors, then state
};

// Returns "float32[None, 28, 28, 1]", for messages.
MUSTER_EXPORT std::string describe(const SymbolicTensor& tensor);

// Several symbolic tensors as inputs or outputs of a layer, with state as in LayerValues. Masks are
// passed along automatically.
struct SymbolicValues {
  std::vector<SymbolicTensor> tensors{};
  std::vector<SymbolicTensor> state{};
};

// Options of Input().
struct InputOptions {
  DType dtype = kFloat32;
  std::string name{};  // empty: "input_1", "input_2", ...
};

// Begins a graph. `shape` does not include the batch: Input({784}) takes [batch, 784]. An axis of
// -1 may have any size. Throws InvalidArgument for an axis below 1 that is not -1.
MUSTER_EXPORT SymbolicTensor Input(Shape shape, InputOptions options = {});

}  // namespace muster::inline v0_1

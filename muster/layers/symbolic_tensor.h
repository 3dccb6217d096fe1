// A SymbolicTensor stands for what a layer will give: it has a shape and a dtype, and no numbers.
// Layers that are called on symbolic tensors make a graph, of which Functional makes a layer.
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
// Muster's graphs alone look into a SymbolicTensor; muster/layers/internal/graph_node.h.
SymbolicTensor symbolic_output(std::shared_ptr<const GraphNode> node, size_t index);
// The node that gives the tensor.
const std::shared_ptr<const GraphNode>& node_of(const SymbolicTensor& tensor);
// The place of the tensor among what its node gives.
size_t index_of(const SymbolicTensor& tensor);
}  // namespace internal

class MUSTER_EXPORT SymbolicTensor {
 public:
  // Axes whose size is only known when the layer runs are -1; the first one is the batch, and is
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
  size_t index_;  // among what the node gives: tensors, then state
};

// Gives "float32[None, 28, 28, 1]", for messages.
MUSTER_EXPORT std::string describe(const SymbolicTensor& tensor);

// Several of them go into a layer and come out of it, with state as LayerValues has it. Masks
// travel beside the tensors by themselves.
struct SymbolicValues {
  std::vector<SymbolicTensor> tensors{};
  std::vector<SymbolicTensor> state{};
};

// Options of Input().
struct InputOptions {
  DType dtype = kFloat32;
  std::string name{};  // "input_1", "input_2", ... where it is empty
};

// Begins a graph. `shape` leaves out the batch: Input({784}) takes [batch, 784]. An axis of -1 may
// have any size. Throws InvalidArgument for an axis below 1 that is not -1.
MUSTER_EXPORT SymbolicTensor Input(Shape shape, InputOptions options = {});

}  // namespace muster::inline v0_1

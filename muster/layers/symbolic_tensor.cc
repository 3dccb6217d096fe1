#include "muster/layers/symbolic_tensor.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/graph_node.h"

namespace muster::inline v0_1 {
SymbolicTensor::SymbolicTensor(std::shared_ptr<const internal::GraphNode> node, size_t index)
    : node_(std::move(node)), index_(index) {}

const Shape& SymbolicTensor::shape() const { return node_->outputs[index_].shape; }
DType SymbolicTensor::dtype() const { return node_->outputs[index_].dtype; }

namespace internal {

SymbolicTensor symbolic_output(std::shared_ptr<const GraphNode> node, size_t index) {
  return SymbolicTensor(std::move(node), index);
}

const std::shared_ptr<const GraphNode>& node_of(const SymbolicTensor& tensor) {
  return tensor.node_;
}

size_t index_of(const SymbolicTensor& tensor) { return tensor.index_; }

}  // namespace internal

std::string describe(const SymbolicTensor& tensor) {
  return internal::node_of(tensor)->outputs[internal::index_of(tensor)].describe();
}

SymbolicTensor Input(Shape shape, InputOptions options) {
  for (const int64_t size : shape) {
    if (size >= 1 || size == -1) continue;
    throw invalid_argument(
        fmt::format("Input: shape is {}", describe(shape)),
        "a size must be at least 1, or -1 for any; the batch is left out of the shape");
  }
  shape.insert(shape.begin(), -1);
  auto node = std::make_shared<internal::GraphNode>(
      internal::GraphNode{.order = internal::next_order(),
                          .layer = {},
                          .identity = LayerIdentity("input", std::move(options.name)),
                          .outputs = {{.shape = std::move(shape), .dtype = options.dtype}},
                          .tensors = 1});
  return internal::symbolic_output(std::move(node), 0);
}

}  // namespace muster::inline v0_1

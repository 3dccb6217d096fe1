// A GraphNode is one call of a layer on symbolic tensors, or an Input.
// Thread safety: immutable once it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/layers/layer.h"
#include "muster/layers/symbolic_tensor.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::internal {

// The known facts about a tensor before there is one.
struct SymbolicSpec {
  Shape shape{};  // -1: any size
  DType dtype = kFloat32;
  int64_t mask_axes = 0;  // a mask of this many axes comes with it; 0: none

  std::string describe() const;
};

struct GraphNode {
  uint64_t order = 0;            // nodes made later have larger ones
  std::optional<Layer> layer{};  // none: an Input
  LayerIdentity identity;        // of the layer, or of the Input
  SymbolicValues inputs{};
  std::vector<SymbolicSpec> outputs{};  // tensors, then state
  size_t tensors = 0;                   // this many of them are tensors
  // All that the layer uses, named as if it stood alone.
  std::vector<VariableSpec> variables{};
};

// The tensor at `index` of the outputs of `node`; and, for such a tensor, its node and index.
SymbolicTensor symbolic_output(std::shared_ptr<const GraphNode> node, size_t index);
const std::shared_ptr<const GraphNode>& node_of(const SymbolicTensor& tensor);
size_t index_of(const SymbolicTensor& tensor);

// Returns the next order: the calls of a program are numbered as they are made.
uint64_t next_order();

// Returns "(None, 28, 28, 1)", as Keras writes it.
std::string keras_shape(const Shape& shape);

// Returns "float32[None, 3] from layer dense and float32[None, 4] from Input input_1". `names` are
// by the id of the identity.
std::string describe_sources(const std::vector<SymbolicTensor>& values,
                             const std::unordered_map<uint64_t, std::string>& names);

// Makes the node of a call. Throws InvalidArgument that names the layer, and the layers and shapes
// of its inputs, when it does not take them.
SymbolicValues call_on_symbols(const Layer& layer, const SymbolicValues& inputs);

}  // namespace muster::inline v0_1::internal

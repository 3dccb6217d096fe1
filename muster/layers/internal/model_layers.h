// The layers of any model as a list: for the table and the graph that show them.
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/layers/internal/graph_layers.h"

namespace muster::inline v0_1::internal {

struct ModelLayers {
  std::vector<SymbolicTensor> outputs{};  // the nodes live as long as these
  std::vector<GraphLayer> layers{};       // inputs are among them
  ParameterCount parameters{};
  bool functional = false;
};

// Returns the layers of a Functional, or of any other layer called on `inputs`. Throws the errors
// of Layer::summary(); `asker` begins the message.
ModelLayers model_layers(const Layer& model, const std::vector<SymbolicTensor>& inputs,
                         const char* asker);

// Returns the layer that makes `value`, and by which of its calls; nothing if it is none of them.
std::optional<std::pair<const GraphLayer*, size_t>> source_of(
    const SymbolicTensor& value, const std::vector<GraphLayer>& layers);

// Returns "MaxPooling2D" for a layer of class "max_pooling2d": the name of the class in Keras.
std::string keras_type(const GraphNode& node);

}  // namespace muster::inline v0_1::internal

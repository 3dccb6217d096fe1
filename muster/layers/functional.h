// The functional form of a model: call layers on symbolic tensors, and make a layer of everything
// between inputs and outputs. It may have several inputs and outputs, share layers and branch.
//
//   const SymbolicTensor image = Input({28, 28, 1}), age = Input({1}, {.name = "age"});
//   const SymbolicTensor seen = Flatten()(Conv2D(8, 3)(image));
//   const Functional model({image, age}, {Dense(10)(Concatenate()({seen, age}))});
//
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/layer.h"
#include "muster/layers/symbolic_tensor.h"

namespace muster::inline v0_1 {

// Call it like any other layer, with a tensor for each input; it returns one for each output, and
// passes masks from layer to layer. Layers run in the order in which they were called on symbolic
// tensors, with the names they would have outside; the Functional itself is named "model",
// "model_1". Throws InvalidArgument for tensors that do not fit its inputs.
class MUSTER_EXPORT Functional : public Layer {
 public:
  // Throws InvalidArgument if an output needs an Input that is not among the inputs ("graph
  // disconnected"), if no output needs an input, if an input is not an Input or occurs twice, if
  // two layers have the same name, and if the calls of a shared layer need weights of different
  // shapes.
  Functional(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs,
             std::string name = {});

  // Returns `layer` as a Functional, if it was made as one.
  static std::optional<Functional> of(const Layer& layer);

  const std::vector<SymbolicTensor>& inputs() const;
  const std::vector<SymbolicTensor>& outputs() const;
  // Returns the names of the Inputs, and those of the layers of the outputs. If several outputs
  // have the same layer, the second is called "dense:1".
  const std::vector<std::string>& input_names() const;
  const std::vector<std::string>& output_names() const;
  // Returns its layers, each once, in the order of Keras: those furthest from the outputs first.
  std::vector<Layer> layers() const;
  // Returns the number of elements of all variables, including those that do not train.
  int64_t count_params() const;

 private:
  explicit Functional(Layer layer) : Layer(std::move(layer)) {}
};

}  // namespace muster::inline v0_1

// The functional form of a model: layers are called on symbolic tensors, and what lies between
// inputs and outputs becomes a layer. It may have several of both, share layers and branch.
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

// Is called as any other layer, with a tensor for each input, and gives one for each output; masks
// go along from layer to layer. Layers run in the order in which they were called on symbolic
// tensors, and are named as if they stood alone; "model", "model_1" is the name of the Functional
// itself. Throws InvalidArgument when it is called with other tensors than its inputs say.
class MUSTER_EXPORT Functional : public Layer {
 public:
  // Throws InvalidArgument where an output needs an Input that is not among the inputs ("graph
  // disconnected"), where no output needs an input, where an input is no Input or is there twice,
  // where two layers have the same name, and where the calls of a shared layer ask for weights of
  // different shapes.
  Functional(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs,
             std::string name = {});

  // Gives what `layer` is, where it was made as a Functional.
  static std::optional<Functional> of(const Layer& layer);

  const std::vector<SymbolicTensor>& inputs() const;
  const std::vector<SymbolicTensor>& outputs() const;
  // Gives their names: those of the Inputs, and of the layers that give the outputs. Of an output
  // that shares its layer with others the second is called "dense:1".
  const std::vector<std::string>& input_names() const;
  const std::vector<std::string>& output_names() const;
  // Gives its layers, each once, in the order of Keras: those furthest from the outputs first.
  std::vector<Layer> layers() const;
  // Counts the elements of all variables, those that do not train included.
  int64_t count_params() const;

 private:
  explicit Functional(Layer layer) : Layer(std::move(layer)) {}
};

}  // namespace muster::inline v0_1

// A Layer describes one step of a model: a value that owns no tensors. Its variables come from the
// VariableStore of the CallContext it is called with, so one layer serves training, evaluation and
// every replica. Thread safety: immutable; calls are safe from several threads with different
// contexts.
#pragma once

#include <memory>
#include <string>

#include "muster/layers/call_context.h"
#include "muster/layers/layer_values.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// What a kind of layer does. Implement it to make a layer of your own; one that takes one tensor
// and gives one is shorter as a UnaryLayerImpl ("muster/layers/unary_layer.h").
class LayerImpl {
 public:
  LayerImpl(std::string class_name, std::string given_name)
      : identity_(std::move(class_name), std::move(given_name)) {}
  virtual ~LayerImpl() = default;

  // Must be a pure function of the inputs, the context's variables, its training flag and its
  // random keys. The tensors are defined and the masks fit them; how many there are, and whether
  // there are masks and state, is for the layer to check.
  virtual LayerOutputs call(const LayerInputs& inputs, CallContext& context) const = 0;

  const LayerIdentity& identity() const { return identity_; }

 private:
  LayerIdentity identity_;
};

class Layer {
 public:
  explicit Layer(std::shared_ptr<const LayerImpl> impl);

  // Creates the layer's variables at the first call in a context. Calls of one Layer, and of its
  // copies, share weights within a context. Throws InvalidArgument naming the layer, what it
  // expects and what it was given.
  LayerOutputs operator()(const LayerInputs& inputs, CallContext& context) const;
  // Calls it with one tensor, whose steps all count, and leaves out the mask and the state of the
  // result. Throws InvalidArgument also when the layer gives more than one tensor.
  Tensor operator()(const Tensor& input, CallContext& context) const;
  // These use the context of the replica function they are called in. They throw InvalidArgument
  // outside of Strategy::run(); in a model function, ModelContext::model() binds a layer to its
  // context.
  LayerOutputs operator()(const LayerInputs& inputs) const;
  Tensor operator()(const Tensor& input) const;

  const LayerImpl& impl() const { return *impl_; }

 private:
  CallContext& current_context() const;

  std::shared_ptr<const LayerImpl> impl_;
};

}  // namespace muster::inline v0_1

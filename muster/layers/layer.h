// A Layer describes one step of a model: a value that owns no tensors. Its variables come from the
// VariableStore of the CallContext of the call, so one layer serves training, evaluation and every
// replica. Thread safety: immutable; calls are safe from several threads with different contexts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/call_context.h"
#include "muster/layers/layer_values.h"
#include "muster/layers/symbolic_tensor.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// What a layer computes in inside a mixed_precision() ("muster/layers/mixed_precision.h").
enum class LayerPrecision {
  kFloat32,  // it gets float32: right for any layer
  kWidened,  // the same, but its result is rounded to bfloat16 if its inputs were bfloat16
  // The same on the CPU; on a GPU it gets bfloat16 inputs unchanged, and still computes in float32.
  kWidenedOnCpu,
  kAsGiven,   // it computes in the dtype of its inputs; float32 if they have both
  kBfloat16,  // it gets bfloat16, and multiplies in it
};

// The implementation of a layer. Implement it to make your own layer; for a layer with one input
// and one output a UnaryLayerImpl is shorter ("muster/layers/unary_layer.h").
class MUSTER_EXPORT LayerImpl {
 public:
  LayerImpl(std::string class_name, std::string given_name)
      : identity_(std::move(class_name), std::move(given_name)) {}
  virtual ~LayerImpl() = default;

  // Must be a pure function of the inputs, the context's variables, its training flag and its
  // random keys. The tensors are defined and the masks fit them; the layer itself must check the
  // number of tensors, and whether there are masks and state.
  virtual LayerOutputs call(const LayerInputs& inputs, CallContext& context) const = 0;

  // Inside mixed_precision(), inputs and state have this dtype; weights stay float32.
  virtual LayerPrecision precision() const { return LayerPrecision::kFloat32; }

  const LayerIdentity& identity() const { return identity_; }

 private:
  LayerIdentity identity_;
};

class MUSTER_EXPORT Layer {
 public:
  explicit Layer(std::shared_ptr<const LayerImpl> impl);

  // Creates the layer's variables at the first call in a context. Calls of one Layer, and of its
  // copies, share weights within a context. Throws InvalidArgument with the layer, its expected
  // input and its actual input.
  LayerOutputs operator()(const LayerInputs& inputs, CallContext& context) const;
  // Calls it with one tensor without a mask, and drops the mask and the state of the result. Also
  // throws InvalidArgument when the layer returns more than one tensor.
  Tensor operator()(const Tensor& input, CallContext& context) const;
  // These use the context of the current replica function. They throw InvalidArgument outside of
  // Strategy::run(); in a model function, ModelContext::model() binds a layer to its context.
  LayerOutputs operator()(const LayerInputs& inputs) const;
  Tensor operator()(const Tensor& input) const;
  // These add the layer to a graph ("muster/layers/functional.h"). They immediately call it on zero
  // rows, or, if it refuses these, on two, so that shapes are known and errors are found here. They
  // throw InvalidArgument with the layer and the layers and shapes of its inputs; those that return
  // one tensor also throw it when the layer returns more.
  SymbolicTensor operator()(const SymbolicTensor& input) const;
  SymbolicTensor operator()(const std::vector<SymbolicTensor>& inputs) const;
  SymbolicValues operator()(const SymbolicValues& inputs) const;

  // Returns the table that Keras 2 prints (2.7 to 2.12), with a line end: each layer with its type,
  // its output shape and its number of weights, and "Connected to" if the layers of a Functional
  // are not a chain. A Functional uses its own inputs. Any other layer is called on `inputs`, as in
  // model.summary({Input({784})}); each layer of a Sequential has a row, another layer is one row.
  // Throws InvalidArgument if inputs are missing, given for a Functional, or do not fit.
  std::string summary(const std::vector<SymbolicTensor>& inputs = {}) const;

  const LayerImpl& impl() const { return *impl_; }

 private:
  CallContext& current_context() const;

  std::shared_ptr<const LayerImpl> impl_;
};

}  // namespace muster::inline v0_1

// A Layer describes one step of a model: a value that owns no tensors. Its variables come from the
// VariableStore of the CallContext it is called with, so one layer serves training, evaluation and
// every replica. Thread safety: immutable; calls are safe from several threads with different
// contexts.
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

// How a layer takes part in mixed_precision() ("muster/layers/mixed_precision.h").
enum class LayerPrecision {
  kFloat32,  // it is given float32: right for any layer
  kWidened,  // so it is, and what it gives is rounded to bfloat16 where its inputs were bfloat16
  // So it is on the CPU; on a GPU it is given bfloat16 as it is, and computes in float32 all the
  // same.
  kWidenedOnCpu,
  kAsGiven,   // it computes in what it is given; float32 where inputs are of both dtypes
  kBfloat16,  // it is given bfloat16, which it multiplies
};

// What a kind of layer does. Implement it to make a layer of your own; one that takes one tensor
// and gives one is shorter as a UnaryLayerImpl ("muster/layers/unary_layer.h").
class MUSTER_EXPORT LayerImpl {
 public:
  LayerImpl(std::string class_name, std::string given_name)
      : identity_(std::move(class_name), std::move(given_name)) {}
  virtual ~LayerImpl() = default;

  // Must be a pure function of the inputs, the context's variables, its training flag and its
  // random keys. The tensors are defined and the masks fit them; how many there are, and whether
  // there are masks and state, is for the layer to check.
  virtual LayerOutputs call(const LayerInputs& inputs, CallContext& context) const = 0;

  // Inputs and state come in this dtype inside of mixed_precision(); weights are float32 there too.
  virtual LayerPrecision precision() const { return LayerPrecision::kFloat32; }

  const LayerIdentity& identity() const { return identity_; }

 private:
  LayerIdentity identity_;
};

class MUSTER_EXPORT Layer {
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
  // These add the layer to a graph ("muster/layers/functional.h"). They call it on no rows at once,
  // and where it does not take these, on two, so that shapes are known and what does not fit is
  // found here. They throw InvalidArgument naming the layer, and the layers and shapes of its
  // inputs; and those that give one tensor also when the layer gives more.
  SymbolicTensor operator()(const SymbolicTensor& input) const;
  SymbolicTensor operator()(const std::vector<SymbolicTensor>& inputs) const;
  SymbolicValues operator()(const SymbolicValues& inputs) const;

  // Gives the table that Keras 2 prints (2.7 to 2.12), with a line end behind it: each layer with
  // its type, the shape of what it gives and its number of weights, and "Connected to" where the
  // layers of a Functional are no chain. A Functional is shown with its own inputs. Any other layer
  // is called on `inputs`, as in model.summary({Input({784})}); the layers of a Sequential have a
  // row each, another layer is one row. Throws InvalidArgument where inputs are missing, or are
  // given for a Functional, and where they do not fit.
  std::string summary(const std::vector<SymbolicTensor>& inputs = {}) const;

  const LayerImpl& impl() const { return *impl_; }

 private:
  CallContext& current_context() const;

  std::shared_ptr<const LayerImpl> impl_;
};

}  // namespace muster::inline v0_1

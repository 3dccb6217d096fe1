// A Layer describes one step of a model: a value that owns no tensors. Its variables come from the
// VariableStore of the CallContext it is called with, so one layer serves training, evaluation and
// every replica. Thread safety: immutable; calls are safe from several threads with different
// contexts.
#pragma once

#include <memory>
#include <string>

#include "muster/layers/call_context.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// What a kind of layer does. Implement it to make a layer of your own.
class LayerBody {
 public:
  LayerBody(std::string class_name, std::string given_name)
      : identity_(std::move(class_name), std::move(given_name)) {}
  virtual ~LayerBody() = default;

  // Must be a pure function of the input, the context's variables, its training flag and its random
  // keys.
  virtual Tensor call(const Tensor& input, CallContext& context) const = 0;

  const LayerIdentity& identity() const { return identity_; }

 private:
  LayerIdentity identity_;
};

class Layer {
 public:
  explicit Layer(std::shared_ptr<const LayerBody> body);

  // Creates the layer's variables at the first call in a context. Calls of one Layer, and of its
  // copies, share weights within a context. Throws InvalidArgument naming the layer, what it
  // expects and what it was given.
  Tensor operator()(const Tensor& input, CallContext& context) const;
  // In the context of the replica function this is called in. Throws InvalidArgument outside of
  // Strategy::run(); in a model function, ModelContext::model() binds a layer to its context.
  Tensor operator()(const Tensor& input) const;

  const LayerBody& body() const { return *body_; }
  const std::shared_ptr<const LayerBody>& shared_body() const { return body_; }

 private:
  std::shared_ptr<const LayerBody> body_;
};

}  // namespace muster::inline v0_1

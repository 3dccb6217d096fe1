// What SimpleRNN, LSTM and GRU are inside, and what Bidirectional makes two of.
// Thread safety: immutable values.
#pragma once

#include <string>
#include <utility>

#include "muster/layers/initializers.h"
#include "muster/layers/internal/recurrent_steps.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// A recurrent layer in all but its name.
struct RecurrentSpec {
  RecurrentCell cell;
  bool use_bias = true;
  Initializer kernel_initializer, recurrent_initializer, bias_initializer;
  Regularizer kernel_regularizer, recurrent_regularizer, bias_regularizer, activity_regularizer;
  Constraint kernel_constraint, recurrent_constraint, bias_constraint;
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool zero_output_for_mask = false;
};

// Whose variables a recurrent layer uses: kVariables slots of a layer, from `first_slot`, with a
// prefix to their names.
struct RecurrentVariables {
  static constexpr int kVariables = 3;

  const LayerIdentity& layer;
  int first_slot = 0;
  std::string prefix{};
};

// Computes a recurrent layer; recurrent.h says what that is.
LayerOutputs call_recurrent(const RecurrentSpec& spec, const LayerInputs& inputs,
                            CallContext& context, const RecurrentVariables& variables);

class RecurrentImpl final : public LayerImpl {
 public:
  RecurrentImpl(const char* class_name, RecurrentSpec spec, std::string name)
      : LayerImpl(class_name, std::move(name)), spec_(std::move(spec)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    return call_recurrent(spec_, inputs, context, {.layer = identity()});
  }

  const RecurrentSpec& spec() const { return spec_; }

  LayerPrecision precision() const override { return LayerPrecision::kWidened; }

 private:
  RecurrentSpec spec_;
};

}  // namespace muster::inline v0_1::internal

// Recurrent layers read a sequence step by step: [batch, steps, features] -> [batch, units], the
// output of the last step, or with return_sequences [batch, steps, units].
//
// Mask: a masked step does not change the state, and its output repeats that of the step before;
// before the first step that counts it is 0. So examples of several lengths, padded at the end,
// give the same results as alone (masking.h makes masks). With return_sequences the result has the
// mask of the input.
//
// State: LayerInputs{.tensors = {x}, .state = {h}}, or {h, c} for an LSTM, each [batch, units],
// sets the initial state; its default is 0. With return_state LayerOutputs.state is the final
// state.
//
// Stateful: in training, row i of a batch continues from the final state of row i of the batch
// before, without gradients between them; CallContext::reset_states() sets all states to 0. A
// replica keeps the state of its own rows, in variables "state_0" (h) and "state_1" (c), [batch,
// units]. A checkpoint has the rows of all replicas, so a run resumes exactly, on any number of
// replicas whose batches have the same total size; with another size the state begins with 0. All
// batches of a replica must have the same number of rows; a batch of zero rows does not change the
// state. In evaluation and prediction every batch begins with 0, because several replicas may share
// the batches.
//
// Variables: "kernel" [features, n * units], "recurrent_kernel" [units, n * units] and "bias" [n *
// units], of the input's dtype, which must be one of weights; n is 1, 4 or 3.
//
// In training `dropout` sets numbers of the input to 0, and `recurrent_dropout` numbers of the
// state, the same ones in all steps of an example, and scales the others by 1 / (1 - rate). The
// choice is a function of (seed, step, replica, layer name). With recurrent_dropout each gate draws
// separately, as in Keras.
//
// They throw InvalidArgument for units < 1 and rates outside of 0 <= rate < 1; when called, for an
// input without steps, for a mask or a state that does not fit it, and, if stateful, for a batch
// with another number of rows than the one before.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Options of SimpleRNN().
struct SimpleRNNOptions {
  Activation activation = activations::tanh;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer recurrent_initializer = initializers::orthogonal();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer recurrent_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};  // on the output of the layer
  Constraint kernel_constraint{};
  Constraint recurrent_constraint{};
  Constraint bias_constraint{};
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;  // reads the steps from the last to the first, and returns them so
  bool stateful = false;      // begins with the final state of the last batch
  bool time_major = false;    // inputs, outputs and masks are [steps, batch, ...]
  bool zero_output_for_mask = false;  // the output of a masked step is 0
  std::string name{};
};

// Options of LSTM(), as those of SimpleRNN().
struct LSTMOptions {
  Activation activation = activations::tanh;
  Activation recurrent_activation = activations::sigmoid;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer recurrent_initializer = initializers::orthogonal();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer recurrent_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint recurrent_constraint{};
  Constraint bias_constraint{};
  bool unit_forget_bias = true;  // the bias of gate f is initially 1 (Jozefowicz et al., 2015)
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool time_major = false;
  bool zero_output_for_mask = false;
  std::string name{};
};

// Options of GRU(), as those of SimpleRNN().
struct GRUOptions {
  Activation activation = activations::tanh;
  Activation recurrent_activation = activations::sigmoid;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer recurrent_initializer = initializers::orthogonal();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer recurrent_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint recurrent_constraint{};
  Constraint bias_constraint{};
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool time_major = false;
  bool zero_output_for_mask = false;
  bool reset_after = true;  // gate r multiplies after the recurrent kernel, not before it
  std::string name{};
};

// h' = activation(x kernel + h recurrent_kernel + bias), which is also the output.
MUSTER_EXPORT Layer SimpleRNN(int64_t units, SimpleRNNOptions options = {});

// i, f, c, o are the four parts of x kernel + h recurrent_kernel + bias, and s is the
// recurrent_activation: c' = s(f) c + s(i) activation(c part), h' = s(o) activation(c'), which is
// the output (Hochreiter and Schmidhuber, 1997).
MUSTER_EXPORT Layer LSTM(int64_t units, LSTMOptions options = {});

// z, r, h are the parts of x kernel + bias[0] and of g = h recurrent_kernel + bias[1]: z = s(x_z +
// g_z), r = s(x_r + g_r), h' = z h + (1 - z) activation(x_h + r g_h), which is the output; "bias"
// is [2, 3 * units]. Without reset_after the last part of g is (r h) recurrent_kernel_h, and "bias"
// is [3 * units] (Cho et al., 2014).
MUSTER_EXPORT Layer GRU(int64_t units, GRUOptions options = {});

}  // namespace muster::inline v0_1

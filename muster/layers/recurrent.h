// Recurrent layers: they read a sequence step by step, [batch, steps, features] -> [batch, units],
// the output of the last step, or with return_sequences [batch, steps, units].
//
// Mask: a step that does not count leaves the state as it is, and its output is that of the step
// before; before the first step that counts it is 0. So examples of several lengths, padded at the
// end, give what each gives alone (masking.h makes masks). With return_sequences the mask of the
// input is that of the result.
//
// State: LayerInputs{.tensors = {x}, .state = {h}}, and {h, c} of an LSTM, each [batch, units],
// begins with another state than 0. With return_state LayerOutputs.state is what it ends with.
//
// Stateful: in training row i of a batch goes on where row i of the batch before ended, without
// gradients from one to the other; CallContext::reset_states() sets all of them to 0. A replica
// keeps the state of its own rows, as variables "state_0" (h) and "state_1" (c), [batch, units]. A
// checkpoint has the rows of all replicas, so a run resumes where it was, on any number of replicas
// whose batches are as large together; where they are not, the state begins with 0. All batches of
// a replica have as many rows; one without any leaves the state as it is. In evaluation and
// prediction every batch begins with 0: batches may be dealt to several replicas there.
//
// Variables: "kernel" [features, n * units], "recurrent_kernel" [units, n * units], "bias" [n *
// units], of the input's dtype, one of weights; n is 1, 4 or 3.
//
// In training `dropout` zeroes numbers of the input, and `recurrent_dropout` numbers of the state,
// the same ones in all steps of an example, and scales the others by 1 / (1 - rate). What is drawn
// is a function of (seed, step, replica, layer name). With a recurrent_dropout each gate draws for
// itself, as in Keras.
//
// They throw InvalidArgument for units < 1 and rates outside of 0 <= rate < 1; when called, for an
// input without steps, for a mask or a state that does not fit it, and for a batch that has not
// the rows of the one before, when stateful.
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
  Regularizer activity_regularizer{};  // of what the layer gives
  Constraint kernel_constraint{};
  Constraint recurrent_constraint{};
  Constraint bias_constraint{};
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;  // read the steps from the last to the first, and give them so
  bool stateful = false;      // begin with the state the last batch ended with
  bool time_major = false;    // [steps, batch, ...] goes in and comes out, and so does a mask
  bool zero_output_for_mask = false;  // the output of a step that does not count is 0
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
  bool unit_forget_bias = true;  // the bias of the gate f begins with 1 (Jozefowicz et al., 2015)
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
  bool reset_after = true;  // the gate r multiplies behind the recurrent kernel, not in front of it
  std::string name{};
};

// h' = activation(x kernel + h recurrent_kernel + bias), which is also the output.
MUSTER_EXPORT Layer SimpleRNN(int64_t units, SimpleRNNOptions options = {});

// With the four parts i, f, c, o of x kernel + h recurrent_kernel + bias, and s the
// recurrent_activation: c' = s(f) c + s(i) activation(c part), h' = s(o) activation(c'), which is
// the output (Hochreiter and Schmidhuber, 1997).
MUSTER_EXPORT Layer LSTM(int64_t units, LSTMOptions options = {});

// With the parts z, r, h of x kernel + bias[0] and of g = h recurrent_kernel + bias[1]: z = s(x_z +
// g_z), r = s(x_r + g_r), h' = z h + (1 - z) activation(x_h + r g_h), which is the output; "bias"
// is [2, 3 * units]. Without reset_after the last part of g is (r h) recurrent_kernel_h, and "bias"
// is [3 * units] (Cho et al., 2014).
MUSTER_EXPORT Layer GRU(int64_t units, GRUOptions options = {});

}  // namespace muster::inline v0_1

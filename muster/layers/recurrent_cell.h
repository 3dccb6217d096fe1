// Recurrent cells compute one step of a sequence, and RNN() makes a layer of one: a built-in one,
// several on top of each other, or one of your own.
//
// A cell is a layer too: called with LayerInputs{.tensors = {x}, .state = state}, of x [batch,
// features], it gives its output and the state behind the step. Without a state it begins with 0.
// Variables, initial values and formulas are those of recurrent.h; a cell that RNN() calls is named
// as if it stood alone ("lstm_cell/kernel").
//
// They throw InvalidArgument for units < 1, for rates outside of 0 <= rate < 1, and for a layer
// that is no cell; when called, for inputs and states that do not fit.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// What a cell does. Implement it to make one of your own.
class MUSTER_EXPORT RNNCellImpl : public LayerImpl {
 public:
  using LayerImpl::LayerImpl;

  // Gives the sizes of the state's tensors, each [batch, size].
  virtual std::vector<int64_t> state_sizes() const = 0;

  // What one step gives: its output [batch, ...], and the state behind it.
  struct Result {
    Tensor output{};
    std::vector<Tensor> state{};
  };
  // Computes a step: the input [batch, ...], and the state in front of it.
  using Step = std::function<Result(const Tensor& input, const std::vector<Tensor>& state)>;
  // Is called once for each sequence, with its first input: brings the variables and random keys,
  // and gives what is called for every step of it. So what dropout drops is the same in all steps.
  virtual Step begin(const Tensor& first, CallContext& context) const = 0;

  // Computes a single step.
  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const final;
};

// Options of SimpleRNNCell(), as those of SimpleRNN().
struct SimpleRNNCellOptions {
  Activation activation = activations::tanh;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer recurrent_initializer = initializers::orthogonal();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer recurrent_regularizer{};
  Regularizer bias_regularizer{};
  Constraint kernel_constraint{};
  Constraint recurrent_constraint{};
  Constraint bias_constraint{};
  double dropout = 0;
  double recurrent_dropout = 0;
  std::string name{};
};

// Options of LSTMCell(), as those of LSTM().
struct LSTMCellOptions {
  Activation activation = activations::tanh;
  Activation recurrent_activation = activations::sigmoid;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer recurrent_initializer = initializers::orthogonal();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer recurrent_regularizer{};
  Regularizer bias_regularizer{};
  Constraint kernel_constraint{};
  Constraint recurrent_constraint{};
  Constraint bias_constraint{};
  bool unit_forget_bias = true;
  double dropout = 0;
  double recurrent_dropout = 0;
  std::string name{};
};

// Options of GRUCell(), as those of GRU().
struct GRUCellOptions {
  Activation activation = activations::tanh;
  Activation recurrent_activation = activations::sigmoid;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer recurrent_initializer = initializers::orthogonal();
  Initializer bias_initializer = initializers::zeros();
  Regularizer kernel_regularizer{};
  Regularizer recurrent_regularizer{};
  Regularizer bias_regularizer{};
  Constraint kernel_constraint{};
  Constraint recurrent_constraint{};
  Constraint bias_constraint{};
  double dropout = 0;
  double recurrent_dropout = 0;
  bool reset_after = true;
  std::string name{};
};

// Makes the cell of SimpleRNN(), with a state [batch, units].
MUSTER_EXPORT Layer SimpleRNNCell(int64_t units, SimpleRNNCellOptions options = {});
// Makes the cell of LSTM(); its state is h and c, each [batch, units].
MUSTER_EXPORT Layer LSTMCell(int64_t units, LSTMCellOptions options = {});
// Makes the cell of GRU(), with a state [batch, units].
MUSTER_EXPORT Layer GRUCell(int64_t units, GRUCellOptions options = {});

// Makes a cell of several: each one's output is the next one's input. The state is that of the
// first cell, then that of the second, and so on. Throws InvalidArgument for no cells.
MUSTER_EXPORT Layer StackedRNNCells(const std::vector<Layer>& cells, std::string name = {});

// Options of RNN(), as those of recurrent.h.
struct RNNOptions {
  Regularizer activity_regularizer{};  // of what the layer gives
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool time_major = false;
  bool zero_output_for_mask = false;
  std::string name{};
};

// Reads sequences [batch, steps, ...] with `cell`. With a built-in cell it computes what the layer
// of that name does, as fast.
MUSTER_EXPORT Layer RNN(const Layer& cell, RNNOptions options = {});

}  // namespace muster::inline v0_1

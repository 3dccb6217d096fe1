// Recurrent cells compute one step of a sequence, and RNN() makes a layer of a cell: a built-in
// one, several stacked cells, or your own.
//
// A cell is a layer too: called with LayerInputs{.tensors = {x}, .state = state}, x [batch,
// features], it returns its output and the state after the step. The default state is 0. Variables,
// initial values and formulas are those of recurrent.h; a cell inside RNN() has the name it would
// have alone ("lstm_cell/kernel").
//
// They throw InvalidArgument for units < 1, for rates outside of 0 <= rate < 1, and for a layer
// that is not a cell; when called, for inputs and states that do not fit.
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

// The implementation of a cell. Implement it to make your own.
class MUSTER_EXPORT RNNCellImpl : public LayerImpl {
 public:
  using LayerImpl::LayerImpl;

  // Returns the sizes of the state's tensors, each [batch, size].
  virtual std::vector<int64_t> state_sizes() const = 0;

  // The result of one step: its output [batch, ...], and the state after it.
  struct Result {
    Tensor output{};
    std::vector<Tensor> state{};
  };
  // Computes a step from the input [batch, ...] and the state before it.
  using Step = std::function<Result(const Tensor& input, const std::vector<Tensor>& state)>;
  // Called once for each sequence, with its first input: gets the variables and random keys, and
  // returns the function for every step. Dropout therefore drops the same numbers in all steps.
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

// Makes one cell of several: the output of each is the input of the next. The state is that of the
// first cell, then that of the second, and so on. Throws InvalidArgument for an empty list.
MUSTER_EXPORT Layer StackedRNNCells(const std::vector<Layer>& cells, std::string name = {});

// Options of RNN(), as those of recurrent.h.
struct RNNOptions {
  Regularizer activity_regularizer{};  // on the output of the layer
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool time_major = false;
  bool zero_output_for_mask = false;
  std::string name{};
};

// Reads sequences [batch, steps, ...] with `cell`. With a built-in cell it equals the layer of that
// name, and is as fast.
MUSTER_EXPORT Layer RNN(const Layer& cell, RNNOptions options = {});

}  // namespace muster::inline v0_1

// A recurrent layer's computation over all steps of a batch, made of differentiable operations.
// Thread safety: pure functions.
#pragma once

#include <vector>

#include "muster/layers/activations.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// The computation of a step. The sums of the gates lie side by side in the kernels' last axis: for
// an LSTM in the order i, f, c, o, for a GRU in the order z, r, h.
struct RecurrentCell {
  enum class Kind { kSimple, kLstm, kGru };

  Kind kind = Kind::kSimple;
  int64_t units = 0;
  Activation activation = Activation::kTanh;
  Activation recurrent_activation = Activation::kSigmoid;
  bool reset_after = true;  // of kGru

  int64_t gates() const { return kind == Kind::kSimple ? 1 : kind == Kind::kLstm ? 4 : 3; }
  // The number of tensors kept from one step to the next: the output, and for an LSTM the cell.
  size_t states() const { return kind == Kind::kLstm ? 2 : 1; }
  std::vector<int64_t> state_sizes() const { return std::vector<int64_t>(states(), units); }
  bool has_state_bias() const { return kind == Kind::kGru && reset_after; }
};

// The inputs. A step that does not count leaves the state as it is. All numbers are of one dtype;
// if it is float32 both kernels may be bfloat16, to which the numbers that they multiply are
// rounded.
struct RecurrentSequence {
  Tensor inputs{};              // [steps, batch, features], contiguous; one step at the least
  Tensor counts{};              // [steps, batch], bool, contiguous; undefined: all steps count
  Tensor kernel{};              // [features, gates * units]
  Tensor recurrent_kernel{};    // [units, gates * units]
  Tensor bias{};                // [gates * units], with has_state_bias() [2, ...]; or undefined
  std::vector<Tensor> state{};  // each [batch, units]
  Tensor input_dropout{};       // [gates, batch, features], factors of the input; or undefined
  Tensor state_dropout{};       // [gates, batch, units], factors of the state; or undefined
};

struct RecurrentResult {
  Tensor outputs{};             // [steps, batch, units]
  std::vector<Tensor> state{};  // after the last step
};

RecurrentResult recurrent_steps(const RecurrentCell& cell, const RecurrentSequence& sequence);

// Returns the sums of all steps that do not depend on the state: inputs x kernel + bias, [steps,
// batch, gates * units].
Tensor input_sums(const Tensor& inputs, const Tensor& kernel, const Tensor& bias);

}  // namespace muster::inline v0_1::internal

// ONNX's operations LSTM and GRU. For sources alone. Thread safety: one thread.
#pragma once

#include <string>
#include <vector>

#include "muster/onnx/internal/call.h"
#include "muster/onnx/internal/operations.h"

namespace muster::inline v0_1::onnx::internal {

// The weights of one direction, each with gates one after another on axis 0: i, f, c, o of an LSTM;
// z, r, h of a GRU.
struct RecurrentWeights {
  Tensor kernel{};      // [gates * units, features]
  Tensor recurrent{};   // [gates * units, units]
  Tensor bias{};        // [gates * units], added to inputs x kernel; undefined if there is none
  Tensor state_bias{};  // the same, added to state x recurrent
};

// One node. Tensors are named; "" is an optional one that is not given.
struct RecurrentNode {
  bool lstm = false;
  std::string input{};                         // [steps, batch, features]
  std::vector<RecurrentWeights> directions{};  // the second reads the steps backwards
  // The names that kernel, recurrent and bias get in the file.
  std::string kernel_name{}, recurrent_name{}, bias_name{};
  std::string lengths{};         // int32 [batch]: the steps of each row that count
  std::string hidden{}, cell{};  // [directions, batch, units]; "" is zero
  // ONNX's names of the functions for gates and for values.
  std::string gate_activation = "Sigmoid", activation = "Tanh";
  bool reset_after = false;  // of a GRU: the reset gate scales the state after its product
};

struct RecurrentNames {
  std::string outputs{};         // [steps, directions, batch, units]; 0 after the length of a row
  std::string hidden{}, cell{};  // [directions, batch, units]
};

RecurrentNames add_recurrent_node(const RecurrentNode& node, GraphWriter& writer);

}  // namespace muster::inline v0_1::onnx::internal

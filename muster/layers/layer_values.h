// LayerValues are the inputs and outputs of a layer: tensors, their masks, and state.
// Thread safety: values.
#pragma once

#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

struct LayerValues {
  std::vector<Tensor> tensors{};
  // A mask selects the steps of its tensor that count. It is bool, with the shape of the tensor's
  // first axes ([batch, steps]). With an undefined mask, or without masks, all steps count.
  std::vector<Tensor> masks{};
  // The initial state of a recurrent layer, empty: its own; and its final state in outputs.
  std::vector<Tensor> state{};
};
// Inputs and outputs have the same type, because one layer's output is the next one's input.
using LayerInputs = LayerValues;
using LayerOutputs = LayerValues;

}  // namespace muster::inline v0_1

// LayerValues go into a layer and come out of it: tensors, the masks beside them, and state.
// Thread safety: values.
#pragma once

#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

struct LayerValues {
  std::vector<Tensor> tensors{};
  // A mask tells which steps of its tensor count. It is bool, of the shape of the tensor's first
  // axes ([batch, steps]). With an undefined mask, or no masks at all, all steps count.
  std::vector<Tensor> masks{};
  // A recurrent layer begins with the state it is given, or with its own where this is empty, and
  // gives the state it ends with.
  std::vector<Tensor> state{};
};
// Both are one type, because what one layer gives the next one takes.
using LayerInputs = LayerValues;
using LayerOutputs = LayerValues;

}  // namespace muster::inline v0_1

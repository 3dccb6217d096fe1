// What goes into a layer and what comes out of it: tensors, the masks beside them, and state.
// Thread safety: values.
#pragma once

#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

struct LayerValues {
  std::vector<Tensor> tensors{};
  // Which steps of each tensor count: bool, of the shape of its first axes ([batch, steps]). An
  // undefined mask, or no masks at all, means that all of them count.
  std::vector<Tensor> masks{};
  // What a recurrent layer begins with (empty: its own beginning), and what it ends with.
  std::vector<Tensor> state{};
};
// One type, because what one layer gives the next one takes.
using LayerInputs = LayerValues;
using LayerOutputs = LayerValues;

}  // namespace muster::inline v0_1

#include "muster/layers/internal/fused_relu.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

Tensor relu_in_place(Tensor values) {
  // A graph that is exported holds operations that others can move.
  return torch::jit::tracer::isTracing() ? at::relu(values) : at::relu_(values);
}

}  // namespace muster::inline v0_1::internal

#include "muster/layers/internal/kernel_layout.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "muster/tensor/gradient_destination.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// LibTorch copies a transposed matrix block by block, but no tensor of more axes.
Tensor copied_filters_first(const Tensor& kernel) {
  const int64_t filters = kernel.size(-1);
  Shape shape = kernel.sizes().vec();
  shape.pop_back();
  shape.insert(shape.begin(), filters);
  return kernel.reshape({-1, filters}).t().contiguous().view(shape).movedim(-1, 1);
}

// The way back.
Tensor as_matrix(const Tensor& gradient) {
  return gradient.movedim(1, -1).reshape({gradient.size(0), -1}).t();
}

struct FiltersFirst : public torch::autograd::Function<FiltersFirst> {
  static Tensor forward(AutogradContext* context, const Tensor& kernel) {
    context->save_for_backward({kernel});
    return copied_filters_first(kernel);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor kernel = context->get_saved_variables()[0];
    // Autograd must record gradients that are derived again, so they are not written to memory.
    Tensor destination;
    if (!at::GradMode::is_enabled()) destination = take_gradient_destination(kernel);
    const Tensor matrix = as_matrix(gradients[0]);
    if (!destination.defined()) return {matrix.contiguous().view(kernel.sizes())};
    destination.view({-1, kernel.size(-1)}).copy_(matrix);
    return {destination};
  }
};

}  // namespace

Tensor filters_first(const Tensor& kernel, int64_t rows) {
  if (!kernel.is_cpu() || rows == 0 || torch::jit::tracer::isTracing())
    return kernel.movedim({-1, -2}, {0, 1});
  const bool trains = at::GradMode::is_enabled() && kernel.requires_grad();
  return trains ? FiltersFirst::apply(kernel) : copied_filters_first(kernel);
}

}  // namespace muster::inline v0_1::internal

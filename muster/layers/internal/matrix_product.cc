#include "muster/layers/internal/matrix_product.h"

#include <torch/csrc/autograd/custom_function.h>

#include "muster/layers/internal/bfloat16.h"
#include "muster/tensor/gradient_destination.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Bias = c10::optional<Tensor>;  // autograd takes no undefined tensor

Tensor product(const Tensor& input, const Tensor& kernel, const Bias& bias) {
  return bias ? at::addmm(*bias, input, kernel) : at::mm(input, kernel);
}

struct MatrixProduct : public torch::autograd::Function<MatrixProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& kernel,
                        const Bias& bias) {
    context->save_for_backward({input, kernel});
    context->saved_data["input"] = input.requires_grad();
    context->saved_data["bias"] = bias && bias->requires_grad();
    return product(input, kernel, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &input = saved[0], &kernel = saved[1], &gradient = gradients[0];
    variable_list result(3);
    if (context->saved_data["input"].toBool()) result[0] = at::mm(gradient, kernel.t());
    result[1] = kernel_gradient(input, kernel, gradient);
    if (context->saved_data["bias"].toBool()) result[2] = gradient.sum(0);
    return result;
  }
};

}  // namespace

Tensor kernel_gradient(const Tensor& input, const Tensor& kernel, const Tensor& gradient) {
  if (kernel.scalar_type() == kBFloat16) {
    return batch_product(narrowed(input).t(), narrowed(gradient));
  }
  // Autograd must record gradients that are derived again, so they are not written to memory.
  Tensor destination;
  if (!at::GradMode::is_enabled()) destination = take_gradient_destination(kernel);
  if (!destination.defined()) return at::mm(input.t(), gradient);
  at::mm_out(destination, input.t(), gradient);
  return destination;
}

Tensor matrix_product(const Tensor& input, const Tensor& kernel, const Tensor& bias) {
  const bool trains = at::GradMode::is_enabled() && kernel.requires_grad();
  const Bias given = bias.defined() ? Bias(bias) : Bias();
  return trains ? MatrixProduct::apply(input, kernel, given) : product(input, kernel, given);
}

}  // namespace muster::inline v0_1::internal

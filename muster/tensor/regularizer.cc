#include "muster/tensor/regularizer.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

Regularizer::Regularizer(std::string description, Penalty penalty, AddGradient add_gradient)
    : description_(std::move(description)),
      penalty_(std::move(penalty)),
      add_gradient_(std::move(add_gradient)) {
  if (penalty_ == nullptr) {
    throw invalid_argument(fmt::format("Regularizer: \"{}\" has no function", description_),
                           "a default Regularizer() is none");
  }
}

Tensor Regularizer::operator()(const Tensor& value) const {
  Tensor penalty = penalty_(value);
  if (!penalty.defined() || penalty.dim() != 0 || !penalty.is_floating_point()) {
    throw invalid_argument(fmt::format("the regularizer {} gave {} for {}", description_,
                                       describe(penalty), describe(value)),
                           "a penalty is a floating scalar: end with sum() or mean()");
  }
  return penalty;
}

void Regularizer::add_gradient(const Tensor& value, const Tensor& gradient, double factor) const {
  if (add_gradient_) {
    const torch::NoGradGuard no_grad;
    return add_gradient_(value.detach(), gradient, factor);
  }
  const Tensor leaf = value.detach().set_requires_grad(true);
  Tensor derivative;
  {
    const torch::AutoGradMode gradients(true);
    const Tensor penalty = (*this)(leaf);
    // A penalty that is constant has none.
    if (!penalty.requires_grad()) return;
    derivative = torch::autograd::grad({penalty}, {leaf}, /*grad_outputs=*/{},
                                       /*retain_graph=*/false, /*create_graph=*/false,
                                       /*allow_unused=*/true)[0];
  }
  const torch::NoGradGuard no_grad;
  if (derivative.defined()) Tensor(gradient).add_(derivative, factor);
}

}  // namespace muster::inline v0_1

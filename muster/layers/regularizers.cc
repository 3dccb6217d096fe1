#include "muster/layers/regularizers.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "muster/layers/internal/checks.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::regularizers {
namespace {

// Computes l1 * sum(|x|) + l2 * sum(x * x).
Regularizer sums(std::string description, double l1, double l2) {
  const auto penalty = [l1, l2](const Tensor& value) {
    Tensor sum;
    if (l1 > 0) sum = value.abs().sum() * l1;
    if (l2 > 0) {
      const Tensor squares = value.square().sum() * l2;
      sum = sum.defined() ? sum + squares : squares;
    }
    return sum.defined() ? sum : at::zeros({}, value.options().requires_grad(false));
  };
  const auto add_gradient = [l1, l2](const Tensor& value, const Tensor& gradient, double factor) {
    if (l1 > 0) Tensor(gradient).add_(value.sign(), l1 * factor);
    if (l2 > 0) Tensor(gradient).add_(value, 2 * l2 * factor);
  };
  return Regularizer(std::move(description), penalty, add_gradient);
}

}  // namespace

Regularizer l1(double l1) {
  internal::check_at_least_zero("l1", "l1", l1);
  return sums(fmt::format("l1({})", l1), l1, 0);
}

Regularizer l2(double l2) {
  internal::check_at_least_zero("l2", "l2", l2);
  return sums(fmt::format("l2({})", l2), 0, l2);
}

Regularizer l1_l2(L1L2Options options) {
  internal::check_at_least_zero("l1_l2", "l1", options.l1);
  internal::check_at_least_zero("l1_l2", "l2", options.l2);
  return sums(fmt::format("l1_l2({}, {})", options.l1, options.l2), options.l1, options.l2);
}

}  // namespace muster::inline v0_1::regularizers

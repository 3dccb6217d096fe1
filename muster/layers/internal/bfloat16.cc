#include "muster/layers/internal/bfloat16.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>

#include "muster/base/cpu_features.h"
#include "muster/base/error.h"
#include "muster/tensor/gradient_destination.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::atomic<int> slow_bfloat16_allowed{0};

struct NarrowWeight : public torch::autograd::Function<NarrowWeight> {
  static Tensor forward(AutogradContext* context, const Tensor& weight) {
    context->save_for_backward({weight});
    return weight.to(kBFloat16);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor weight = context->get_saved_variables()[0];
    // Autograd must record gradients that are derived again, so they are not written to memory.
    Tensor destination;
    if (!at::GradMode::is_enabled()) destination = take_gradient_destination(weight);
    if (!destination.defined()) return {gradients[0].to(weight.scalar_type())};
    destination.copy_(gradients[0]);
    return {destination};
  }
};

bool processor_multiplies_bfloat16() {
  return cpu_features().multiplies_bfloat16() && at::globalContext().hasMKLDNN();
}

}  // namespace

Tensor narrowed(const Tensor& tensor) {
  const bool rounds = tensor.defined() && tensor.scalar_type() == kFloat32;
  return rounds ? tensor.to(kBFloat16) : tensor;
}

Tensor widened(const Tensor& tensor) {
  const bool widens = tensor.defined() && tensor.scalar_type() == kBFloat16;
  return widens ? tensor.to(kFloat32) : tensor;
}

Tensor narrowed_weight(const Tensor& weight) {
  if (!weight.defined() || weight.scalar_type() != kFloat32) return weight;
  const bool trains = at::GradMode::is_enabled() && weight.requires_grad();
  return trains ? NarrowWeight::apply(weight) : weight.to(kBFloat16);
}

void check_multiplies_bfloat16(const Device& device) {
  if (!device.is_cpu() || processor_multiplies_bfloat16() || slow_bfloat16_allowed.load() > 0)
    return;
  if (cpu_features().multiplies_bfloat16()) {
    throw invalid_argument(
        "mixed_precision: the policy is \"bfloat16\", and this LibTorch is built without oneDNN, "
        "which multiplies bfloat16",
        "take a LibTorch with oneDNN, or mixed_precision(\"float32\", ...)");
  }
  throw invalid_argument(
      fmt::format("mixed_precision: the policy is \"bfloat16\", and this processor has no "
                  "instructions for it, neither AVX512-BF16 nor AMX-BF16; it has {}",
                  describe(cpu_features())),
      "take mixed_precision(\"float32\", ...), which computes the same model in float32 and reads "
      "the same checkpoints, or a machine with such a processor or a GPU");
}

void allow_slow_bfloat16(bool begins) { slow_bfloat16_allowed += begins ? 1 : -1; }

bool has_bfloat16_kernel(ProductKind kind, const Device& device, int64_t multiplications) {
  if (!device.is_cpu()) return true;
  if (!processor_multiplies_bfloat16()) return false;
  // LibTorch gives smaller products to kernels of its own, which add up in bfloat16.
  constexpr int64_t kSmallest = 16 * 16 * 16;
  switch (kind) {
    case ProductKind::kMatrix:
      return multiplications > kSmallest;
    case ProductKind::kConvolution:
      return true;
    case ProductKind::kTransposedConvolution:
      return false;
  }
  return false;
}

Tensor activated(const Activation& activation, const Tensor& input) {
  return activation(activation.is_softmax() ? widened(input) : input);
}

Tensor product_of(const Tensor& left, const Tensor& right) {
  if (right.scalar_type() != kBFloat16) return at::mm(left, right);
  return widened(batch_product(narrowed(left), right));
}

Tensor batch_product(const Tensor& left, const Tensor& right) {
  const auto product = [](const Tensor& a, const Tensor& b) {
    return a.dim() == 3 && b.dim() == 3 ? at::bmm(a, b) : at::matmul(a, b);
  };
  return multiplied(ProductKind::kMatrix, left.numel() * right.size(-1), product, left, right);
}

Tensor affine(const Tensor& rows, const Tensor& kernel, const Tensor& bias) {
  const auto product = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return c.defined() ? at::addmm(c, a, b) : at::mm(a, b);
  };
  return multiplied(ProductKind::kMatrix, rows.numel() * kernel.size(1), product, rows, kernel,
                    bias);
}

}  // namespace muster::inline v0_1::internal

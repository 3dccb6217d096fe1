#include "muster/losses/sample_weight.h"

#include <fmt/format.h>

#include "muster/losses/internal/inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

// True where `weights` have the rank of `losses`, and each axis is as long, or 1.
bool broadcast(const Tensor& weights, const Tensor& losses) {
  if (weights.dim() != losses.dim()) return false;
  for (int64_t axis = 0; axis < losses.dim(); ++axis) {
    if (weights.size(axis) != losses.size(axis) && weights.size(axis) != 1) return false;
  }
  return true;
}

// Returns the weights in a shape that multiplies the losses without changing their shape.
Tensor fitted(const Tensor& weights, const Tensor& losses) {
  Tensor fit = weights;
  if (weights.dim() == losses.dim() + 1 && weights.size(-1) == 1) fit = weights.squeeze(-1);
  if (weights.dim() + 1 == losses.dim()) fit = weights.unsqueeze(-1);
  if (weights.dim() == 0 || broadcast(fit, losses)) return fit;
  throw invalid_argument(
      fmt::format("sample_weight {} does not fit losses {}", describe(weights), describe(losses)),
      "weights are a scalar, [batch], [batch, 1], or one for each loss");
}

}  // namespace

Tensor compute_weighted_loss(const Tensor& losses, const Tensor& sample_weight,
                             Reduction reduction) {
  if (!sample_weight.defined()) return reduce(losses, reduction);
  return reduce(losses * fitted(sample_weight, losses).to(losses.scalar_type()), reduction);
}

}  // namespace muster::inline v0_1::losses

#include "muster/losses/kl_divergence.h"

#include "muster/losses/internal/inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {

Tensor kl_divergence(const Tensor& labels, const Tensor& predictions,
                     const KlDivergenceOptions& options) {
  const auto inputs =
      internal::inputs_of("kl_divergence", labels, predictions, internal::Fit::kClasses);
  const Tensor y = inputs.labels.clamp(internal::kEpsilon, 1);
  const Tensor p = internal::at_most(1, internal::at_least(internal::kEpsilon, inputs.predictions));
  return internal::weighted("kl_divergence", (y * (y / p).log()).sum(-1), options.sample_weight,
                            options.reduction);
}

}  // namespace muster::inline v0_1::losses

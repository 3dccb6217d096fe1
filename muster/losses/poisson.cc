#include "muster/losses/poisson.h"

#include "muster/losses/internal/inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {

Tensor poisson(const Tensor& labels, const Tensor& predictions, const PoissonOptions& options) {
  const auto [y, p] = internal::inputs_of("poisson", labels, predictions, internal::Fit::kOutputs);
  return internal::weighted("poisson", internal::mean_over(p - y * (p + internal::kEpsilon).log()),
                            options.sample_weight, options.reduction);
}

Tensor log_poisson_loss(const Tensor& labels, const Tensor& predictions,
                        const LogPoissonLossOptions& options) {
  const auto [y, x] =
      internal::inputs_of("log_poisson_loss", labels, predictions, internal::Fit::kOutputs);
  const Tensor terms =
      at::poisson_nll_loss(x, y, /*log_input=*/true, /*full=*/options.compute_full_loss,
                           /*eps=*/0, at::Reduction::None);
  return internal::weighted("log_poisson_loss", internal::mean_over(terms), options.sample_weight,
                            options.reduction);
}

}  // namespace muster::inline v0_1::losses

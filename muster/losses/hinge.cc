#include "muster/losses/hinge.h"

#include "muster/losses/internal/inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

// Returns the distance to the margin, for each output.
Tensor missing(const char* loss, const Tensor& labels, const Tensor& predictions) {
  const auto [y, p] = internal::inputs_of(loss, labels, predictions, internal::Fit::kOutputs);
  return internal::at_least(0, 1 - y.masked_fill(y == 0, -1) * p);
}

}  // namespace

Tensor hinge(const Tensor& labels, const Tensor& predictions, const HingeOptions& options) {
  return internal::weighted("hinge", internal::mean_over(missing("hinge", labels, predictions)),
                            options.sample_weight, options.reduction);
}

Tensor squared_hinge(const Tensor& labels, const Tensor& predictions,
                     const SquaredHingeOptions& options) {
  const Tensor squares = missing("squared_hinge", labels, predictions).square();
  return internal::weighted("squared_hinge", internal::mean_over(squares), options.sample_weight,
                            options.reduction);
}

Tensor categorical_hinge(const Tensor& labels, const Tensor& predictions,
                         const CategoricalHingeOptions& options) {
  const auto [y, p] =
      internal::inputs_of("categorical_hinge", labels, predictions, internal::Fit::kClasses);
  const Tensor right = (y * p).sum(-1);
  const Tensor wrong = ((1 - y) * p).amax(-1);
  return internal::weighted("categorical_hinge", internal::at_least(0, wrong - right + 1),
                            options.sample_weight, options.reduction);
}

}  // namespace muster::inline v0_1::losses

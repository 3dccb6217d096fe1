// Weights of examples: how much each loss of a batch counts. Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Multiplies `losses`, one for each example, by `sample_weight`, and reduces them; Keras and
// tf.losses have the same function. Weights have any dtype; undefined weights are 1. They fit
// losses [batch...] if they are
//   - a scalar,
//   - of the same rank, each axis as long as that of the losses, or 1,
//   - of one more axis, of length 1, at the end: [batch, 1] for [batch],
//   - of one axis less: [batch] for [batch, time], where each weight applies to a whole row.
// Throws InvalidArgument for other shapes (the error shows both). Weights may be negative: the
// optimizer then increases the loss of such an example, as for a negative advantage in a policy
// gradient. Over replicas nothing else is needed: the mean divides by the number of losses,
// whatever their weights. To divide by the sum of the weights, reduce by kSum, divide, and set
// EstimatorSpec::loss_weight to that sum.
MUSTER_EXPORT Tensor compute_weighted_loss(const Tensor& losses, const Tensor& sample_weight = {},
                                           Reduction reduction = Reduction::kMean);

}  // namespace muster::inline v0_1::losses

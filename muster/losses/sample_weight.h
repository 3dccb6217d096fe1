// Weights of examples: how much each loss of a batch counts. Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Multiplies `losses`, of which there is one for each example, by `sample_weight`, and reduces
// them; Keras's and tf.losses' function of that name. The weights are of any dtype; undefined ones
// are 1. They fit losses [batch...] when they are
//   - a scalar,
//   - of the same rank, each axis as long as that of the losses, or 1,
//   - of one axis more, of length 1, at the end: [batch, 1] for [batch],
//   - of one axis less: [batch] for [batch, time], where each weight counts for a whole row.
// Throws InvalidArgument for others (the error shows both). Weights may be negative: such an
// example is to lose more, as one with a negative advantage in a policy gradient. Over replicas
// nothing else needs to be said: the mean divides by the number of losses, whatever their weights.
// To divide by the sum of the weights, reduce by kSum, divide, and give that sum as
// EstimatorSpec::loss_weight.
MUSTER_EXPORT Tensor compute_weighted_loss(const Tensor& losses, const Tensor& sample_weight = {},
                                           Reduction reduction = Reduction::kMean);

}  // namespace muster::inline v0_1::losses

// Weights of examples: how much each loss of a batch counts. Thread safety: pure functions.
#pragma once

#include <vector>

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

// Gives the weight of each example by its class, float32[batch], for `sample_weight`; Keras's
// fit(class_weight=...). class_weight: the weight of class 0, 1, ..., each finite and 0 or more.
// labels: class numbers [batch] or [batch, 1], of any dtype, or [batch, classes], one-hot: in [0,
// 1], the class of a row is the place that is larger than all others, which are equal, as they are
// where labels were smoothed.
// Throws InvalidArgument for other shapes (the error shows both), for a label that is no class of
// the table (it shows row and value), for a row of several classes or of none, which Keras weighs
// as the first of the largest, and for a weight that is none. The check reads the labels on the
// CPU, so for labels on another device it waits for that device.
MUSTER_EXPORT Tensor class_weights(const Tensor& labels, const std::vector<double>& class_weight);

}  // namespace muster::inline v0_1::losses

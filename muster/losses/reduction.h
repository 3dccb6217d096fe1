// Says how losses of examples become one number: within a batch, and over the replicas of a step.
// Thread safety: pure functions.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// What a loss function gives for a batch. kMean and kSum give a scalar, kNone one loss for each
// example. The mean over no examples is 0, with gradients of exactly 0: a replica out of data adds
// nothing.
enum class Reduction { kMean, kSum, kNone };

// Reduces `losses`, of which there is one for each example.
Tensor reduce(const Tensor& losses, Reduction reduction);

// How the losses of several replicas become one: kMean divides the weighted losses by the sum of
// the weights, kSum adds the losses.
enum class LossReduction { kMean, kSum };

}  // namespace muster::inline v0_1::losses

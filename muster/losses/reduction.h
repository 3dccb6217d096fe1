// Says how losses of examples become one number: within a batch, and over the replicas of a step.
// Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/tensor/reduce_op.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// What a loss function gives for a batch. A ReduceOp is not enough for it: kNone is no way to one
// number. kMean and kSum give a scalar, kNone one loss for each
// example. The mean over no examples is 0, with gradients of exactly 0: a replica out of data adds
// nothing. kMean is Keras's SUM_OVER_BATCH_SIZE: weighted losses are added and divided by how many
// there are, not by the sum of their weights.
enum class Reduction { kMean, kSum, kNone, kSumOverBatchSize = kMean };

// Reduces `losses`, of which there is one for each example.
MUSTER_EXPORT Tensor reduce(const Tensor& losses, Reduction reduction);

// The name that ReduceOp had here.
using LossReduction [[deprecated("it is ReduceOp now")]] = ReduceOp;

// Gives what a step has to be told, as EstimatorSpec::loss_reduction or RunOptions::loss_reduction,
// so that n replicas compute for a loss of `reduction` what one computes: a sum over the batch is a
// sum over replicas too. Throws InvalidArgument for kNone: a step needs one number.
MUSTER_EXPORT ReduceOp over_replicas(Reduction reduction);

}  // namespace muster::inline v0_1::losses

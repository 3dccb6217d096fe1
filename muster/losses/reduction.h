// How the losses of examples become one number: within a batch, and over the replicas of a step.
// Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/tensor/reduce_op.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// The result of a loss function for a batch. kMean and kSum return a scalar; kNone returns one loss
// for each example, so ReduceOp cannot replace this enum. The mean over no examples is 0, with
// gradients of exactly 0: a replica without data adds nothing. kMean is Keras's
// SUM_OVER_BATCH_SIZE: the sum of the weighted losses divided by their number, not by the sum of
// their weights.
enum class Reduction { kMean, kSum, kNone, kSumOverBatchSize = kMean };

// Reduces `losses`, one for each example.
MUSTER_EXPORT Tensor reduce(const Tensor& losses, Reduction reduction);

// The former name of ReduceOp here.
using LossReduction [[deprecated("it is ReduceOp now")]] = ReduceOp;

// Returns the value for EstimatorSpec::loss_reduction or RunOptions::loss_reduction with which n
// replicas compute the same as one, for a loss of `reduction`: a sum over the batch needs a sum
// over replicas. Throws InvalidArgument for kNone: a step needs one number.
MUSTER_EXPORT ReduceOp over_replicas(Reduction reduction);

}  // namespace muster::inline v0_1::losses

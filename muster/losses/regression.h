// Losses of predicted numbers, with Keras's definitions: labels come first, predictions second. In
// all of them except cosine_similarity(), predictions are [batch..., outputs], floating point, or
// [batch] for one output; labels have the same shape, any dtype, or lack a last axis of 1. Other
// shapes are not broadcast: InvalidArgument shows both shapes. Each of [batch...] has one loss, the
// mean over outputs. Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Options of mean_squared_error().
struct MeanSquaredErrorOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of (label - prediction)^2, one number for each example.
MUSTER_EXPORT Tensor mean_squared_error(const Tensor& labels, const Tensor& predictions,
                                        const MeanSquaredErrorOptions& options = {});

// Options of mean_absolute_error().
struct MeanAbsoluteErrorOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of |label - prediction|.
MUSTER_EXPORT Tensor mean_absolute_error(const Tensor& labels, const Tensor& predictions,
                                         const MeanAbsoluteErrorOptions& options = {});

// Options of mean_absolute_percentage_error().
struct MeanAbsolutePercentageErrorOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of 100 |label - prediction| / max(|label|, 1e-7).
MUSTER_EXPORT Tensor
mean_absolute_percentage_error(const Tensor& labels, const Tensor& predictions,
                               const MeanAbsolutePercentageErrorOptions& options = {});

// Options of mean_squared_logarithmic_error().
struct MeanSquaredLogarithmicErrorOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of (log(1 + label) - log(1 + prediction))^2; labels and
// predictions below 1e-7 count as 1e-7.
MUSTER_EXPORT Tensor
mean_squared_logarithmic_error(const Tensor& labels, const Tensor& predictions,
                               const MeanSquaredLogarithmicErrorOptions& options = {});

// Options of huber().
struct HuberOptions {
  double delta = 1;  // more than 0; up to this distance the loss is quadratic, beyond it linear
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of d^2 / 2 where d = |label - prediction| is at most delta,
// and delta d - delta^2 / 2 elsewhere. Throws InvalidArgument for a delta that is not more than 0.
MUSTER_EXPORT Tensor huber(const Tensor& labels, const Tensor& predictions,
                           const HuberOptions& options = {});

// Options of log_cosh().
struct LogCoshOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of log(cosh(prediction - label)), without overflow.
MUSTER_EXPORT Tensor log_cosh(const Tensor& labels, const Tensor& predictions,
                              const LogCoshOptions& options = {});

// Options of cosine_similarity().
struct CosineSimilarityOptions {
  int64_t axis = -1;  // the axis of the vectors; not 0, the batch
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes minus the cosine of the angle between label and prediction: -1 for the same direction, 1
// for the opposite one. Both are [batch..., numbers]. Vectors are divided by their length, whose
// square counts as at least 1e-12; so the loss of a zero vector is 0.
MUSTER_EXPORT Tensor cosine_similarity(const Tensor& labels, const Tensor& predictions,
                                       const CosineSimilarityOptions& options = {});

}  // namespace muster::inline v0_1::losses

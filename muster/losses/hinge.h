// Hinge losses, which require a margin of 1, with Keras's definitions: labels come first,
// predictions second. Shapes and errors are those of regression.h. Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Options of hinge().
struct HingeOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of max(1 - label prediction, 0). Labels are -1 or 1; a label
// 0 counts as -1. Keras converts 0 only if a batch has no labels except 0 and 1; here the result
// does not depend on the other labels, which may be on other replicas.
MUSTER_EXPORT Tensor hinge(const Tensor& labels, const Tensor& predictions,
                           const HingeOptions& options = {});

// Options of squared_hinge().
struct SquaredHingeOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of max(1 - label prediction, 0)^2. Labels are as in hinge().
MUSTER_EXPORT Tensor squared_hinge(const Tensor& labels, const Tensor& predictions,
                                   const SquaredHingeOptions& options = {});

// Options of categorical_hinge().
struct CategoricalHingeOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes max(0, 1 + n - p), where p is the sum over the last axis of label prediction, and n the
// largest value of (1 - label) prediction. predictions: [batch..., classes]; labels: the same
// shape, 0 or 1.
MUSTER_EXPORT Tensor categorical_hinge(const Tensor& labels, const Tensor& predictions,
                                       const CategoricalHingeOptions& options = {});

}  // namespace muster::inline v0_1::losses

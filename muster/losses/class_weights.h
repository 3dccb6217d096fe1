// Weights of examples by their class. Thread safety: pure functions.
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Returns the weight of each example by its class, float32[batch], for `sample_weight`, as Keras's
// fit(class_weight=...). class_weight: the weight of class 0, 1, ..., each finite and 0 or more.
// labels: class numbers [batch] or [batch, 1] of any dtype, or [batch, classes], one-hot, in [0,
// 1]. The class of a one-hot row is its largest entry; all others must be equal, as they also are
// in smoothed labels.
// Throws InvalidArgument for other shapes (the error shows both), for a label that is not a class
// of the table (the error shows row and value), for a one-hot row with several classes or none
// (Keras uses the first of the largest), and for an invalid weight. The check reads the labels on
// the CPU, so it waits for another device that holds them.
MUSTER_EXPORT Tensor class_weights(const Tensor& labels, const std::vector<double>& class_weight);

}  // namespace muster::inline v0_1::losses

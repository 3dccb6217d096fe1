// Weights of examples by their class. Thread safety: pure functions.
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

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

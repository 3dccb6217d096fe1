// The common part of cross-entropies and focal losses. Thread safety: pure functions.
#pragma once

#include "muster/losses/internal/inputs.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses::internal {

// Checks labels in [0, 1] of outputs that are yes or no, and smooths them. See inputs_of().
Inputs binary_inputs(const char* loss, const Tensor& labels, const Tensor& predictions,
                     double label_smoothing);

// Checks labels in [0, 1] of classes, brings the classes to the last axis, and smooths the labels.
Inputs categorical_inputs(const char* loss, const Tensor& labels, const Tensor& predictions,
                          double label_smoothing, int64_t axis);

// Returns -y log p - (1 - y) log(1 - p) of each output.
Tensor binary_terms(const Tensor& labels, const Tensor& predictions, bool from_logits);

// Returns probabilities clipped to [1e-7, 1 - 1e-7]. Gradients stop where the clipping cuts.
Tensor clipped(const Tensor& probabilities);

// Returns probabilities divided by their sum over the last axis.
Tensor scaled_to_one(const Tensor& probabilities);

}  // namespace muster::inline v0_1::losses::internal

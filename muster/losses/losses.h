// Computes losses with Keras's definitions: labels come first, predictions second.
// Thread safety: pure functions.
#pragma once

#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Options of sparse_categorical_crossentropy().
struct SparseCategoricalCrossentropyOptions {
  // False, as in Keras: predictions are probabilities; they are clipped to [1e-7, 1 - 1e-7] and
  // scaled to sum 1.
  bool from_logits = false;
  Reduction reduction = Reduction::kMean;
};

// Computes -log p[label]. predictions: [batch..., classes], floating point; labels: [batch...] or
// [batch..., 1], any integer dtype. Throws InvalidArgument for shapes that do not fit (the error
// shows both) and for a label outside [0, classes) (it shows row and value). The check reads the
// labels on the CPU, so for labels on another device it waits for that device.
Tensor sparse_categorical_crossentropy(const Tensor& labels, const Tensor& predictions,
                                       const SparseCategoricalCrossentropyOptions& options = {});

// Options of mean_squared_error().
struct MeanSquaredErrorOptions {
  Reduction reduction = Reduction::kMean;
};

// Computes the mean over the last axis of (label - prediction)^2, one number for each example.
// predictions: [batch..., outputs], or [batch] for one output; labels: the same shape, any dtype;
// [batch] and [batch, 1] fit each other. Nothing else is broadcast: InvalidArgument shows both
// shapes.
Tensor mean_squared_error(const Tensor& labels, const Tensor& predictions,
                          const MeanSquaredErrorOptions& options = {});

}  // namespace muster::inline v0_1::losses

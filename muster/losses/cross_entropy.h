// Cross-entropies with Keras's definitions: labels come first, predictions second.
//
// Without from_logits, predictions are probabilities. Numbers that cannot be probabilities (below
// 0, or above 1 where they are not scaled) are refused if they are among the first 1024 numbers of
// a batch: they are usually logits. On a GPU only some calls check, because the check waits for the
// device.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Options of binary_crossentropy().
struct BinaryCrossentropyOptions {
  // False, as in Keras: predictions are probabilities, clipped to [1e-7, 1 - 1e-7].
  bool from_logits = false;
  double label_smoothing = 0;  // in [0, 1]: labels become y (1 - s) + s / 2
  int64_t axis = -1;           // the axis of the mean; not 0, the batch
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of -y log p - (1 - y) log(1 - p), for one binary output or
// several independent ones. With probabilities, 1e-7 is added to the arguments of the logarithms,
// as in Keras. predictions: [batch..., outputs], or [batch] for one output; labels in [0, 1]: the
// same shape, or without a last axis of 1. Returns a loss for each of [batch...]. Throws
// InvalidArgument for shapes that do not fit (the error shows both), a label outside [0, 1] (it
// shows row and value) and for options out of range. Checking labels on another device waits for
// that device.
MUSTER_EXPORT Tensor binary_crossentropy(const Tensor& labels, const Tensor& predictions,
                                         const BinaryCrossentropyOptions& options = {});

// Options of categorical_crossentropy().
struct CategoricalCrossentropyOptions {
  // False, as in Keras: predictions are probabilities; they are scaled to sum 1, then clipped to
  // [1e-7, 1 - 1e-7].
  bool from_logits = false;
  double label_smoothing = 0;  // in [0, 1]: labels become y (1 - s) + s / classes
  int64_t axis = -1;           // the axis of the classes; not 0, the batch
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the sum over classes of -y log p. predictions: [batch..., classes]; labels: the same
// shape, in [0, 1], the probability of each class; a row should have the sum 1, which is not
// checked. Throws InvalidArgument as binary_crossentropy() does.
MUSTER_EXPORT Tensor categorical_crossentropy(const Tensor& labels, const Tensor& predictions,
                                              const CategoricalCrossentropyOptions& options = {});

// Options of sparse_categorical_crossentropy().
struct SparseCategoricalCrossentropyOptions {
  // False, as in Keras: predictions are probabilities; they are clipped to [1e-7, 1 - 1e-7] and
  // scaled to sum 1.
  bool from_logits = false;
  // Labels with this number have no loss, and the mean is over the other labels. It need not be the
  // number of a class. Replicas then have different numbers of counted labels: set
  // EstimatorSpec::loss_weight to that number.
  std::optional<int64_t> ignore_class = std::nullopt;
  int64_t axis = -1;  // the axis of the classes; not 0, the batch
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes -log p[label]. predictions: [batch..., classes], floating point; labels: [batch...] or
// [batch..., 1], any integer dtype. Throws InvalidArgument for shapes that do not fit (the error
// shows both) and for a label outside [0, classes) (it shows row and value). The check reads the
// labels on the CPU, so it waits for another device that holds them.
MUSTER_EXPORT Tensor
sparse_categorical_crossentropy(const Tensor& labels, const Tensor& predictions,
                                const SparseCategoricalCrossentropyOptions& options = {});

}  // namespace muster::inline v0_1::losses

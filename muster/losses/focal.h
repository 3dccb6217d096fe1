// Focal losses: cross-entropies that reduce the weight of examples that are already predicted well
// (Lin et al., "Focal loss for dense object detection", 2017), with Keras's definitions.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Options of binary_focal_crossentropy().
struct BinaryFocalCrossentropyOptions {
  bool apply_class_balancing = false;  // multiplies by y alpha + (1 - y) (1 - alpha)
  double alpha = 0.25;                 // in [0, 1]; the weight of class 1 with
                                       // apply_class_balancing
  double gamma = 2;                    // 0 or more; 0 is binary_crossentropy()
  bool from_logits = false;
  double label_smoothing = 0;  // in [0, 1]: labels become y (1 - s) + s / 2
  int64_t axis = -1;           // the axis of the mean; not 0, the batch
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes binary_crossentropy() with each output's term multiplied by (1 - q)^gamma, where q = y p
// + (1 - y) (1 - p) is the probability of the right answer. Shapes and errors as there.
MUSTER_EXPORT Tensor binary_focal_crossentropy(const Tensor& labels, const Tensor& predictions,
                                               const BinaryFocalCrossentropyOptions& options = {});

// Options of categorical_focal_crossentropy().
struct CategoricalFocalCrossentropyOptions {
  std::vector<double> alpha = {0.25};  // one weight for all classes, or one for each; 0 or more
  double gamma = 2;                    // 0 or more
  bool from_logits = false;
  double label_smoothing = 0;  // in [0, 1]: labels become y (1 - s) + s / classes
  int64_t axis = -1;           // the axis of the classes; not 0, the batch
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the sum over classes of -alpha (1 - p)^gamma y log p. Probabilities, also those computed
// from logits, are scaled to sum 1 and clipped to [1e-7, 1 - 1e-7]. Shapes and errors are those of
// categorical_crossentropy().
MUSTER_EXPORT Tensor
categorical_focal_crossentropy(const Tensor& labels, const Tensor& predictions,
                               const CategoricalFocalCrossentropyOptions& options = {});

}  // namespace muster::inline v0_1::losses

// Loss scaling: keeps small gradients from becoming 0 in 16-bit numbers, in a model or when they
// are sent. Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of loss_scaling().
struct MUSTER_EXPORT LossScalingOptions {
  bool dynamic = true;           // false: the scale is constant, and gradients are not checked
  double initial_scale = 32768;  // 2^15; finite and above 0, with `dynamic` at least 1
  int64_t dynamic_growth_steps = 2000;  // good updates in a row until the scale doubles; >= 1

  bool operator==(const LossScalingOptions&) const = default;
  std::string describe() const;  // "loss_scaling(32768, dynamic_growth_steps=2000)"
};

// The state of a dynamic scale; saved as "<optimizer>/loss_scale" and "<optimizer>/good_steps".
struct LossScale {
  double scale = 1;
  int64_t good_steps = 0;  // updates in a row since the scale changed
  bool operator==(const LossScale&) const = default;
};
// Returns the scale after a step whose gradients were all finite, or not. It doubles after
// dynamic_growth_steps good updates in a row, unless it would exceed float32, and halves, down to
// 1, after a gradient that is not finite.
MUSTER_EXPORT LossScale next_loss_scale(const LossScalingOptions& options, const LossScale& now,
                                        bool finite);

// Returns the optimizer with the loss multiplied by a scale before the backward pass. Its
// gradients, after the mean or sum over replicas, are divided by the scale before anything else. A
// scale that is a power of two changes no bit of a number that neither overflows nor vanishes. With
// `dynamic`, a step with a gradient that is not finite updates nothing that this optimizer trains,
// including slots and its update count, on all replicas, and halves the scale; if the scale is
// already 1, it throws NonFinite. The global step counts such a step. A loss that is not finite
// ends the run, as without scaling. Throws InvalidArgument that names the field, its value and the
// range, and for an optimizer that already has a scale.
// Source: tf.keras.mixed_precision.LossScaleOptimizer.
MUSTER_EXPORT Optimizer loss_scaling(Optimizer optimizer, const LossScalingOptions& options = {});

}  // namespace muster::inline v0_1::optim

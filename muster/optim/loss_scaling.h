// Loss scaling: keeps small gradients from becoming 0 where they pass through numbers of 16 bits,
// in a model or on the wire. Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of loss_scaling().
struct MUSTER_EXPORT LossScalingOptions {
  bool dynamic = true;           // false: the scale stays as it is, and gradients are not looked at
  double initial_scale = 32768;  // 2^15; finite and above 0, with `dynamic` at least 1
  int64_t dynamic_growth_steps = 2000;  // updates in a row until the scale doubles; >= 1

  bool operator==(const LossScalingOptions&) const = default;
  std::string describe() const;  // "loss_scaling(32768, dynamic_growth_steps=2000)"
};

// What a dynamic scale has come to; saved as "<optimizer>/loss_scale" and "<optimizer>/good_steps".
struct LossScale {
  double scale = 1;
  int64_t good_steps = 0;  // updates in a row since the scale changed
  bool operator==(const LossScale&) const = default;
};
// The scale after a step whose gradients were all finite, or not: it doubles after so many updates
// in a row, unless it would be no finite float32, and halves down to 1 where a gradient is not
// finite.
MUSTER_EXPORT LossScale next_loss_scale(const LossScalingOptions& options, const LossScale& now,
                                        bool finite);

// Gives the same optimizer, for which the loss is multiplied by a scale before backward; its
// gradients, after the mean or sum over replicas, are divided by it before anything else is done to
// them. A scale that is a power of two changes no bit of a number that neither overflows nor
// vanishes. With `dynamic`, a step with a gradient that is not finite updates nothing that this
// optimizer trains, slots and the optimizer's count of updates included, on all replicas alike, and
// halves the scale; where the scale is 1 already, it throws NonFinite. The global step counts such
// a step. A loss that is itself not finite ends the run, as ever. Throws InvalidArgument that names
// the field, its value and the range, and for an optimizer that has a scale.
// Source: tf.keras.mixed_precision.LossScaleOptimizer.
MUSTER_EXPORT Optimizer loss_scaling(Optimizer optimizer, const LossScalingOptions& options = {});

}  // namespace muster::inline v0_1::optim

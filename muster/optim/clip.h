// Clips gradients. Use each kind at most once on an optimizer; of two bounds only the smaller would
// have an effect. Thread safety: pure functions of values.
#pragma once

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Returns the optimizer with gradients clipped by their common norm. n is the square root of the
// sum of the squares of all gradients of this optimizer in a step, after the mean or sum over
// replicas; each gradient becomes g * max_norm / max(n, max_norm). A step whose n is not finite
// throws NonFinite and updates nothing. Throws InvalidArgument unless max_norm is finite and more
// than 0. Source: tf.clip_by_global_norm.
MUSTER_EXPORT Optimizer clip_by_global_norm(Optimizer optimizer, double max_norm);

// Returns the optimizer with each number of a gradient clipped to min(max(g, -clip_value),
// clip_value), after the mean or sum over replicas. Throws InvalidArgument unless clip_value is
// finite and more than 0. Source: Keras's `clipvalue`.
MUSTER_EXPORT Optimizer clip_by_value(Optimizer optimizer, double clip_value);

// Returns the optimizer with the gradient of each variable clipped by its own Euclidean norm n,
// after the mean or sum over replicas: it becomes g * max_norm / max(n, max_norm). A step with an n
// that is not finite throws NonFinite, which names the variable, and updates nothing. Throws
// InvalidArgument unless max_norm is finite and more than 0. Source: Keras's `clipnorm`.
MUSTER_EXPORT Optimizer clip_by_norm(Optimizer optimizer, double max_norm);

}  // namespace muster::inline v0_1::optim

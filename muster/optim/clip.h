// Clips gradients. Each stands around an optimizer once; of two bounds of a kind only the smaller
// would count. Thread safety: pure functions of values.
#pragma once

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Gives the same optimizer, whose gradients are shortened where they are too long. Let n be the
// square root of the sum of the squares of all gradients this optimizer is given in a step, after
// the mean or sum over replicas: each becomes g * max_norm / max(n, max_norm). A step whose n is
// not finite throws NonFinite and updates nothing. Throws InvalidArgument unless max_norm is finite
// and more than 0. Source: tf.clip_by_global_norm.
MUSTER_EXPORT Optimizer clip_by_global_norm(Optimizer optimizer, double max_norm);

// Gives the same optimizer, in whose gradients no number is more than `clip_value` from 0: each
// becomes min(max(g, -clip_value), clip_value), after the mean or sum over replicas. Throws
// InvalidArgument unless clip_value is finite and more than 0. Source: Keras's `clipvalue`.
MUSTER_EXPORT Optimizer clip_by_value(Optimizer optimizer, double clip_value);

// Gives the same optimizer, where the gradient of each variable is shortened by itself: with n its
// Euclidean norm, after the mean or sum over replicas, it becomes g * max_norm / max(n, max_norm).
// A step in which an n is not finite throws NonFinite, which names the variable, and updates
// nothing. Throws InvalidArgument unless max_norm is finite and more than 0. Source: Keras's
// `clipnorm`.
MUSTER_EXPORT Optimizer clip_by_norm(Optimizer optimizer, double max_norm);

}  // namespace muster::inline v0_1::optim

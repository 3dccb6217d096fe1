// Clips gradients. Thread safety: pure functions of values.
#pragma once

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Gives the same optimizer, whose gradients are shortened where they are too long. Let n be the
// square root of the sum of the squares of all gradients this optimizer is given in a step, after
// the mean or sum over replicas: each becomes g * max_norm / max(n, max_norm). A step whose n is
// not finite throws NonFinite and updates nothing. Throws InvalidArgument unless max_norm is finite
// and more than 0. Source: tf.clip_by_global_norm.
Optimizer clip_by_global_norm(Optimizer optimizer, double max_norm);

}  // namespace muster::inline v0_1::optim

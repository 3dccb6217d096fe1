// Makes initial values of variables, with Keras's definitions. A value depends on the shape and the
// key alone, and a key on the seed and the variable's name, so initial values are the same in any
// order of creation and on any number of workers. Thread safety: pure functions.
//
// Fans: for a kernel [..., in, out] with receptive field r (the product of the leading axes),
// fan_in = r * in and fan_out = r * out; for one axis [n] both are n.
#pragma once

#include "muster/tensor/variable.h"

namespace muster::inline v0_1::initializers {

// All elements are the same: 0, 1, `value`.
Initializer zeros();
Initializer ones();
Initializer constant(double value);
// Draws uniformly from [minimum, maximum). Throws InvalidArgument when the interval is empty.
Initializer random_uniform(double minimum = -0.05, double maximum = 0.05);
// Draws normal numbers. Throws InvalidArgument for a negative stddev.
Initializer random_normal(double mean = 0.0, double stddev = 0.05);
// Draws normal numbers, and draws again what is further than two stddev from the mean.
Initializer truncated_normal(double mean = 0.0, double stddev = 0.05);
// Draws uniformly from [-l, l), l = sqrt(6 / (fan_in + fan_out)).
Initializer glorot_uniform();
// Draws truncated normal numbers of variance 2 / (fan_in + fan_out).
Initializer glorot_normal();
// Draws uniformly from [-l, l), l = sqrt(6 / fan_in).
Initializer he_uniform();
// Draws truncated normal numbers of variance 2 / fan_in.
Initializer he_normal();

}  // namespace muster::inline v0_1::initializers

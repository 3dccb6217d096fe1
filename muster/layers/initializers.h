// Makes initial values of variables, with Keras's definitions. A value depends on the shape and the
// key alone, and a key on the seed and the variable's name, so initial values are the same in any
// order of creation and on any number of workers. Thread safety: pure functions.
//
// Fans: for a kernel [..., in, out] with receptive field r (the product of the leading axes),
// fan_in = r * in and fan_out = r * out; for one axis [n] both are n.
#pragma once

#include "muster/base/export.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::initializers {

// Fill all elements with 0, 1, or `value`. Throws InvalidArgument unless `value` is finite.
MUSTER_EXPORT Initializer zeros();
MUSTER_EXPORT Initializer ones();
MUSTER_EXPORT Initializer constant(double value);
// Returns a copy of the tensor, in the variable's dtype: for existing weights. Throws
// InvalidArgument for an undefined tensor, and, when called, for another shape, with both shapes.
MUSTER_EXPORT Initializer constant(const Tensor& value);
// Draws uniformly from [minimum, maximum). Throws InvalidArgument when the interval is empty.
MUSTER_EXPORT Initializer random_uniform(double minimum = -0.05, double maximum = 0.05);
// Draws normal numbers. Throws InvalidArgument for a negative stddev.
MUSTER_EXPORT Initializer random_normal(double mean = 0.0, double stddev = 0.05);
// Draws normal numbers, and draws again if one is more than two stddev from the mean.
MUSTER_EXPORT Initializer truncated_normal(double mean = 0.0, double stddev = 0.05);

// The divisor of variance_scaling: fan_in, fan_out, or (fan_in + fan_out) / 2; at least 1.
enum class FanMode { kFanIn, kFanOut, kFanAvg };
// kTruncatedNormal draws again beyond two standard deviations, and is scaled to keep the variance;
// kUntruncatedNormal is not truncated.
enum class Distribution { kTruncatedNormal, kUntruncatedNormal, kUniform };

// Options of variance_scaling().
struct VarianceScalingOptions {
  double scale = 1;
  FanMode mode = FanMode::kFanIn;
  Distribution distribution = Distribution::kTruncatedNormal;
};

// Draws numbers of mean 0 and variance scale / fan. Throws InvalidArgument unless scale is finite
// and above 0.
MUSTER_EXPORT Initializer variance_scaling(VarianceScalingOptions options = {});

// Variants of variance_scaling: glorot has scale 1 and the mean of the fans (Glorot and Bengio,
// 2010), he has scale 2 and fan_in (He et al., 2015), lecun has scale 1 and fan_in (LeCun et al.,
// 1998); each uniform, or truncated normal.
MUSTER_EXPORT Initializer glorot_uniform();
MUSTER_EXPORT Initializer glorot_normal();
MUSTER_EXPORT Initializer he_uniform();
MUSTER_EXPORT Initializer he_normal();
MUSTER_EXPORT Initializer lecun_uniform();
MUSTER_EXPORT Initializer lecun_normal();

// Makes a matrix [product of all axes except the last, last axis] with orthonormal rows or columns,
// whichever are fewer, times `gain`: Q of the QR decomposition of normal numbers, with the signs
// that make the diagonal of R positive (Saxe et al., 2014). Throws InvalidArgument for a gain that
// is not finite, and, when called, for fewer than two axes.
MUSTER_EXPORT Initializer orthogonal(double gain = 1);

// Makes [rows, columns] with `gain` on the diagonal and 0 elsewhere. Throws InvalidArgument for a
// gain that is not finite, and when called, for another number of axes.
MUSTER_EXPORT Initializer identity(double gain = 1);

}  // namespace muster::inline v0_1::initializers

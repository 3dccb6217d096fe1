// Layers that disturb their input in training, and do nothing otherwise. Their random numbers are a
// function of (seed, step, replica, layer name). A step mask is passed on unchanged. Thread safety:
// immutable values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// They set whole channels to 0, each with probability `rate`, and scale the others by 1 / (1 -
// rate): for sequences [batch, steps, channels], images [batch, height, width, channels] and
// volumes [batch, depth, height, width, channels]. Throw InvalidArgument unless 0 <= rate < 1.
MUSTER_EXPORT Layer SpatialDropout1D(double rate, std::string name = {});
MUSTER_EXPORT Layer SpatialDropout2D(double rate, std::string name = {});
MUSTER_EXPORT Layer SpatialDropout3D(double rate, std::string name = {});

// Sets each element, with probability `rate`, to the limit value of selu, and scales and shifts all
// elements so that mean 0 and variance 1 are kept (Klambauer et al., 2017). Throws InvalidArgument
// unless 0 <= rate < 1.
MUSTER_EXPORT Layer AlphaDropout(double rate, std::string name = {});

// Adds normal numbers of mean 0. Throws InvalidArgument for a stddev below 0 or not finite.
MUSTER_EXPORT Layer GaussianNoise(double stddev, std::string name = {});

// Multiplies by normal numbers of mean 1 and variance rate / (1 - rate). Throws InvalidArgument
// unless 0 <= rate < 1.
MUSTER_EXPORT Layer GaussianDropout(double rate, std::string name = {});

}  // namespace muster::inline v0_1

// Layers that disturb what passes through them in training, and do nothing otherwise. What they
// draw is a function of (seed, step, replica, layer name). A mask of steps stays as it is. Thread
// safety: immutable values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// They zero whole channels, each with probability `rate`, and scale the others by 1 / (1 - rate):
// of sequences [batch, steps, channels], images [batch, height, width, channels] and volumes
// [batch, depth, height, width, channels]. Throw InvalidArgument unless 0 <= rate < 1.
MUSTER_EXPORT Layer SpatialDropout1D(double rate, std::string name = {});
MUSTER_EXPORT Layer SpatialDropout2D(double rate, std::string name = {});
MUSTER_EXPORT Layer SpatialDropout3D(double rate, std::string name = {});

// Sets each element, with probability `rate`, to the value selu tends to, and scales and shifts all
// of them so that mean 0 and variance 1 stay what they are (Klambauer et al., 2017). Throws
// InvalidArgument unless 0 <= rate < 1.
MUSTER_EXPORT Layer AlphaDropout(double rate, std::string name = {});

// Adds normal numbers of mean 0. Throws InvalidArgument for a stddev below 0 or not finite.
MUSTER_EXPORT Layer GaussianNoise(double stddev, std::string name = {});

// Multiplies by normal numbers of mean 1 and variance rate / (1 - rate). Throws InvalidArgument
// unless 0 <= rate < 1.
MUSTER_EXPORT Layer GaussianDropout(double rate, std::string name = {});

}  // namespace muster::inline v0_1

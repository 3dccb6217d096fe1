// Scales numbers, such as the bytes of images.
// Thread safety: immutable values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Computes input * scale + offset; integers become float32: Rescaling(1.0 / 255) scales the bytes
// of an image to 0 ... 1. A mask is passed on unchanged. Throws InvalidArgument for numbers that
// are not finite.
MUSTER_EXPORT Layer Rescaling(double scale, double offset = 0, std::string name = {});

}  // namespace muster::inline v0_1

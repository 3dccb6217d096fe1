// Dropout. Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Options of Dropout().
struct DropoutOptions {
  // The shape of what is drawn, with the batch: 1 draws once for all of an axis, -1 (Keras's None)
  // for each of its elements, as the axis's size does. {-1, 1, -1} drops the same features in all
  // steps of an example. Empty: each element for itself.
  std::vector<int64_t> noise_shape{};
  std::string name{};
};

// In training it zeroes each element with probability `rate` and scales the others by 1 / (1 -
// rate); otherwise it does nothing. Which elements is a function of (seed, step, replica, layer
// name). A mask of steps stays as it is. Throws InvalidArgument unless 0 <= rate < 1 and for other
// sizes in noise_shape, and when called in training, for an input that does not fit it.
MUSTER_EXPORT Layer Dropout(double rate, DropoutOptions options = {});

}  // namespace muster::inline v0_1

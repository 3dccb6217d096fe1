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
  // The shape of the random mask, with the batch: 1 uses one draw for the whole axis, -1 (Keras's
  // None) or the axis's size one for each index. {-1, 1, -1} drops the same features in all steps
  // of an example. Empty: one draw for each element.
  std::vector<int64_t> noise_shape{};
  std::string name{};
};

// In training it sets each element to 0 with probability `rate` and scales the others by 1 / (1 -
// rate); otherwise it does nothing. The choice is a function of (seed, step, replica, layer name).
// A step mask is passed on unchanged. Throws InvalidArgument unless 0 <= rate < 1 and for other
// sizes in noise_shape; when called in training, for an input that does not fit it.
MUSTER_EXPORT Layer Dropout(double rate, DropoutOptions options = {});

}  // namespace muster::inline v0_1

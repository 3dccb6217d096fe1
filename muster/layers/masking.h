// Masks select the steps of a sequence that count.
// Thread safety: immutable values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Returns its input [batch, steps, ..., features] with a mask: a step counts unless all of its
// features are `mask_value`; other steps become 0. A mask of the input also applies. Throws
// InvalidArgument for a NaN mask_value.
MUSTER_EXPORT Layer Masking(double mask_value = 0, std::string name = {});

// Returns its input without the mask, for a layer that cannot take one. From there on all steps
// count, including padding; Keras drops masks at such layers silently.
MUSTER_EXPORT Layer RemoveMask(std::string name = {});

// Makes the mask [batch, steps] of examples of these lengths, padded at the end: lengths [batch],
// int64 or int32. The number of steps is `steps`, or the longest length. Throws InvalidArgument for
// lengths of another kind or below 0, and for steps < 0.
MUSTER_EXPORT Tensor sequence_mask(const Tensor& lengths, std::optional<int64_t> steps = {});

}  // namespace muster::inline v0_1

// Masks tell which steps of a sequence count.
// Thread safety: immutable values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Gives its input [batch, steps, ..., features] with a mask: a vector of features counts unless all
// of them are `mask_value`; those that do not count become 0. A mask of the input counts too.
// Throws InvalidArgument for a mask_value that is no number.
MUSTER_EXPORT Layer Masking(double mask_value = 0, std::string name = {});

// Gives its input without the mask, in front of a layer that cannot take one. From there on all
// steps count, padding included; Keras drops masks at such layers without a word.
MUSTER_EXPORT Layer RemoveMask(std::string name = {});

// Makes the mask [batch, steps] of examples of these lengths, padded at the end: lengths [batch],
// int64 or int32. There are as many steps as the longest has, or `steps`. Throws InvalidArgument
// for lengths of another kind or below 0, and for steps < 0.
MUSTER_EXPORT Tensor sequence_mask(const Tensor& lengths, std::optional<int64_t> steps = {});

}  // namespace muster::inline v0_1

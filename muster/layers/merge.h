// Layers that combine several tensors: layer(LayerInputs{.tensors = {a, b}}).
// Thread safety: immutable values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// They compute element by element. Axes of size 1 are broadcast, except the batch; a tensor with
// fewer axes gets axes of size 1 after its batch. A step counts if all masks include it. Throw
// InvalidArgument for shapes that do not fit (the error shows them), for tensors of several dtypes,
// and without tensors.
MUSTER_EXPORT Layer Add(std::string name = {});
MUSTER_EXPORT Layer Multiply(std::string name = {});
MUSTER_EXPORT Layer Average(std::string name = {});
MUSTER_EXPORT Layer Maximum(std::string name = {});
MUSTER_EXPORT Layer Minimum(std::string name = {});
// Computes the first minus the second; takes exactly two tensors.
MUSTER_EXPORT Layer Subtract(std::string name = {});

// Joins tensors along `axis`; negative numbers count from the back. All other sizes must be equal.
// Masks with that axis are joined too; otherwise a step counts if all masks include it. Throws
// InvalidArgument for axis 0, the batch, and, when called, for shapes that do not fit.
MUSTER_EXPORT Layer Concatenate(int64_t axis = -1, std::string name = {});

// Options of Dot().
struct DotOptions {
  bool normalize = false;  // first scales both to length 1 along the axis: cosine similarity
  std::string name{};
};

// Multiplies two tensors and sums along axes[0] of the first and axes[1] of the second, for each
// example: [batch, A..., k], [batch, B..., k] -> [batch, A..., B...], or [batch, 1] if no axes are
// left. One number means both; negative numbers count from the back. Throws InvalidArgument for
// axis 0, the batch, and, when called, for axes that the inputs do not have and for unequal sizes.
MUSTER_EXPORT Layer Dot(int64_t axis, DotOptions options = {});
MUSTER_EXPORT Layer Dot(std::array<int64_t, 2> axes, DotOptions options = {});

}  // namespace muster::inline v0_1

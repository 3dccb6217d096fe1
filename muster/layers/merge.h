// Layers that make one tensor of several: layer(LayerInputs{.tensors = {a, b}}).
// Thread safety: immutable values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// They compute element by element. Sizes of 1 stretch, but for the batch's; a tensor with fewer
// axes gets axes of size 1 behind its batch. What all masks let through counts. Throw
// InvalidArgument for shapes that do not fit, which it names, for tensors of several dtypes, and
// for no tensor at all.
MUSTER_EXPORT Layer Add(std::string name = {});
MUSTER_EXPORT Layer Multiply(std::string name = {});
MUSTER_EXPORT Layer Average(std::string name = {});
MUSTER_EXPORT Layer Maximum(std::string name = {});
MUSTER_EXPORT Layer Minimum(std::string name = {});
// Computes the first minus the second; it takes exactly two.
MUSTER_EXPORT Layer Subtract(std::string name = {});

// Joins tensors along `axis`, which may count from the back. They have the same sizes but for that
// axis. Masks are joined too where they have that axis; otherwise what all of them let through
// counts. Throws InvalidArgument for axis 0, the batch, and when called, for shapes that do not
// fit.
MUSTER_EXPORT Layer Concatenate(int64_t axis = -1, std::string name = {});

// Options of Dot().
struct DotOptions {
  bool normalize = false;  // bring both to length 1 along the axis first: cosine similarity
  std::string name{};
};

// Multiplies two tensors and sums along axes[0] of the first and axes[1] of the second, for each
// example: [batch, A..., k], [batch, B..., k] -> [batch, A..., B...], or [batch, 1] where no axes
// are left. A number means both; axes may count from the back. Throws InvalidArgument for axis 0,
// the batch, and when called, for axes the inputs do not have and sizes that differ.
MUSTER_EXPORT Layer Dot(int64_t axis, DotOptions options = {});
MUSTER_EXPORT Layer Dot(std::array<int64_t, 2> axes, DotOptions options = {});

}  // namespace muster::inline v0_1

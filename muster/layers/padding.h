// Adds zeros around sequences, images and volumes, or crops their borders.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// The numbers of elements before and after an axis; a single number means both.
struct Margin {
  Margin(int64_t both) : before(both), after(both) {}  // NOLINT(google-explicit-constructor)
  Margin(int64_t before, int64_t after) : before(before), after(after) {}

  int64_t before;
  int64_t after;
};

// The margins of an image: 1 on all sides, {1, 2} above and below and left and right, or {{top,
// bottom}, {left, right}}.
struct Margins2D {
  Margins2D(int64_t all) : height(all), width(all) {}  // NOLINT(google-explicit-constructor)
  Margins2D(Margin height, Margin width) : height(height), width(width) {}

  Margin height;
  Margin width;
};

// The margins of a volume, in the same way.
struct Margins3D {
  // NOLINTNEXTLINE(google-explicit-constructor)
  Margins3D(int64_t all) : depth(all), height(all), width(all) {}
  Margins3D(Margin depth, Margin height, Margin width)
      : depth(depth), height(height), width(width) {}

  Margin depth;
  Margin height;
  Margin width;
};

// Adds zeros: [batch, steps, channels], [batch, height, width, channels], [batch, depth, height,
// width, channels]. Throw InvalidArgument for margins below 0.
MUSTER_EXPORT Layer ZeroPadding1D(Margin padding = 1, std::string name = {});
MUSTER_EXPORT Layer ZeroPadding2D(Margins2D padding = 1, std::string name = {});
MUSTER_EXPORT Layer ZeroPadding3D(Margins3D padding = 1, std::string name = {});

// Crops margins. Throw InvalidArgument for margins below 0, and, when called, if nothing is left.
MUSTER_EXPORT Layer Cropping1D(Margin cropping = 1, std::string name = {});
MUSTER_EXPORT Layer Cropping2D(Margins2D cropping = 0, std::string name = {});
MUSTER_EXPORT Layer Cropping3D(Margins3D cropping = 1, std::string name = {});

}  // namespace muster::inline v0_1

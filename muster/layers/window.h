// How a window moves over steps, images or volumes: its sizes and its padding.
// Thread safety: values.
#pragma once

#include <cstdint>

namespace muster::inline v0_1 {

// kValid: only complete windows. kSame: ceil(size / stride) outputs; if the padding is odd, the
// extra step, row or column is after the others, as in TensorFlow. kCausal: as many outputs as
// kSame, and all padding comes first, so that no output depends on a later step; only for Conv1D.
enum class Padding { kValid, kSame, kCausal };

// A Size2D has a height and a width; a single number means both.
struct Size2D {
  Size2D(int64_t both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  Size2D(int64_t height, int64_t width) : height(height), width(width) {}

  int64_t height;
  int64_t width;
};

// A Size3D has a depth, a height and a width; a single number means all of them.
struct Size3D {
  Size3D(int64_t all)
      : depth(all), height(all), width(all) {}  // NOLINT(google-explicit-constructor)
  Size3D(int64_t depth, int64_t height, int64_t width)
      : depth(depth), height(height), width(width) {}

  int64_t depth;
  int64_t height;
  int64_t width;
};

}  // namespace muster::inline v0_1

// Resizes images to one size.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"
#include "muster/layers/resize_images.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Options of Resizing.
struct ResizingOptions {
  // How to compute a new pixel: muster/layers/resize_images.h.
  Interpolation interpolation = Interpolation::kBilinear;
  // Keeps the aspect ratio: uses the largest central part with the new ratio.
  bool crop_to_aspect_ratio = false;
  std::string name{};  // of the layer
};

// Resizes images [height, width, channels], or a batch of them, to [..., height, width, channels];
// integers become float32. Pixels are squares whose centers are at one half. It is a function for
// map(), and converts to a Layer.
class MUSTER_EXPORT Resizing {
 public:
  // Throws InvalidArgument for sizes below 1.
  Resizing(int64_t height, int64_t width, ResizingOptions options = {});

  // Throws InvalidArgument for other numbers of axes, and for images without pixels.
  Tensor operator()(const Tensor& images) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1

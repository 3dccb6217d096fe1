// Crops the center of images.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Returns the center [..., height, width, channels] of images [height, width, channels] or a batch
// of them; integers become float32. If the exact center lies between pixels, the crop is half a
// pixel up and left of it. An image smaller than the crop becomes Resizing(height, width,
// {.crop_to_aspect_ratio = true}). It is a function for map(), and converts to a Layer.
class MUSTER_EXPORT CenterCrop {
 public:
  // Throws InvalidArgument for sizes below 1.
  CenterCrop(int64_t height, int64_t width, std::string name = {});

  // Throws InvalidArgument for other numbers of axes, and for images without pixels.
  Tensor operator()(const Tensor& images) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1

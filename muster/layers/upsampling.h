// Makes sequences longer, and images and volumes larger.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"
#include "muster/layers/resize_images.h"
#include "muster/layers/window.h"

namespace muster::inline v0_1 {

// Options of UpSampling2D().
struct UpSampling2DOptions {
  Size2D size = 2;
  Interpolation interpolation = Interpolation::kNearest;  // the choices are in resize_images.h
  std::string name{};
};

// They make each axis between batch and channels `size` times as long; 1D and 3D by repetition.
// Throw InvalidArgument for sizes below 1.
MUSTER_EXPORT Layer UpSampling1D(int64_t size = 2, std::string name = {});
MUSTER_EXPORT Layer UpSampling2D(UpSampling2DOptions options = {});
MUSTER_EXPORT Layer UpSampling3D(Size3D size = 2, std::string name = {});

}  // namespace muster::inline v0_1

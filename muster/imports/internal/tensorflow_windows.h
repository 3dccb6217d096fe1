// Windows over images, of TensorFlow's convolutions and pools. For sources alone. Thread safety:
// values.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/imports/internal/tensorflow_kernels.h"

namespace muster::inline v0_1::imports {

// LibTorch has channels before the sizes, TensorFlow mostly after them.
class TensorflowWindows {
 public:
  // `axes`: 2 or 3, of the image. Throws InvalidArgument for attributes that do not fit.
  TensorflowWindows(const NodeRun& call, int64_t axes);

  // [batch, channels, sizes...] of what TensorFlow has, and the other way.
  Tensor image(const Tensor& x) const;
  Tensor back(const Tensor& image) const;
  // The numbers of the axes of an image in a list for all axes.
  std::vector<int64_t> of_image(const std::vector<int64_t>& all) const;
  // Sets `before` and `after` for an image of these sizes.
  void pad_for(const std::vector<int64_t>& sizes, const std::vector<int64_t>& window);
  // For constant_pad_nd(): the last axis first.
  std::vector<int64_t> pads() const;
  bool same_on_both_sides() const { return before == after; }

  std::vector<int64_t> strides, dilations, before, after;  // for each axis of the image

 private:
  const NodeRun& call_;
  const int64_t axes_;
  bool channels_last_ = true;
};

}  // namespace muster::inline v0_1::imports

// Strides, dilations and padding of the windows of convolutions and pools. For sources alone.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/imports/internal/node_run.h"

namespace muster::inline v0_1::onnx::internal {

struct WindowForm {
  // `kernel` is the shape of the window; `x` is [batch, channels, ...].
  WindowForm(const NodeRun& call, const Tensor& x, std::vector<int64_t> kernel);

  std::vector<int64_t> kernel, strides, dilations, before, after;  // for each axis of the image

  size_t axes() const { return kernel.size(); }
  bool same_on_both_sides() const { return before == after; }
  // For constant_pad_nd(): the last axis first.
  std::vector<int64_t> pads() const;
};

}  // namespace muster::inline v0_1::onnx::internal

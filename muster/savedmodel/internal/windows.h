// Windows over images, of convolutions and pooling. ONNX has channels before the sizes, TensorFlow
// has them last, and no operations of one axis. For sources alone. Thread safety: values.
#pragma once

#include <string>
#include <vector>

#include "muster/savedmodel/internal/call.h"

namespace muster::inline v0_1::saved_model::internal {

struct Windows {
  // One number for each axis: 2 or 3. `pads` has the begins, then the ends.
  std::vector<int64_t> kernel, strides, dilations, pads;
  std::vector<int64_t> sizes;  // of the image; -1: free
  bool widened = false;        // one axis in ONNX: the first here has size 1
  std::string padding = "VALID";

  // Throws InvalidArgument ("not supported: ...") for more than 3 axes.
  static Windows of_convolution(Call& call);
  static Windows of_pool(Call& call);

  size_t axes() const { return kernel.size(); }
  // [1, numbers..., 1]
  std::vector<int64_t> with_batch_and_channels(const std::vector<int64_t>& numbers) const;
  // The argument 0 with channels last.
  std::string image(Call& call) const;
  // The other way: the result of ONNX.
  std::string channels_first(Call& call, const std::string& image) const;
  // Zeros between the numbers of a kernel of this shape instead of dilations, which TensorFlow
  // does not have for processors in all operations. The size of the kernel changes.
  std::string without_holes(Call& call, const std::string& kernel_value,
                            std::vector<int64_t> shape);
  // Whether the padding is what TensorFlow calls "SAME".
  bool is_same() const;
  // Numbers around the image, and `padding` accordingly; then `pads` are done.
  std::string padded(Call& call, const std::string& image, double number);
  // Numbers at begin and end of each axis of an image, and of any tensor.
  static std::string around(Call& call, const std::string& image, const std::vector<int64_t>& pads,
                            double number);
  static std::string surrounded(Call& call, const std::string& value,
                                const std::vector<int64_t>& pads, double number);
  // Depthwise convolutions have one stride for both axes; false if that is impossible.
  bool make_strides_equal();
};

// int32 [rank].
std::string shape32_of(Call& call, const std::string& value);

}  // namespace muster::inline v0_1::saved_model::internal

#include "muster/imports/internal/tensorflow_windows.h"

#include <algorithm>
#include <numeric>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {

TensorflowWindows::TensorflowWindows(const NodeRun& call, int64_t axes)
    : before(static_cast<size_t>(axes), 0), after(before), call_(call), axes_(axes) {
  channels_last_ = !call.text_attribute("data_format", "N").starts_with("NC");
  const std::vector<int64_t> ones(static_cast<size_t>(axes) + 2, 1);
  strides = of_image(call.integers_attribute("strides", ones));
  const auto given = call.integers_attribute("dilations", ones);
  dilations = of_image(given.empty() ? ones : given);
  const auto positive = [](int64_t each) { return each > 0; };
  call.require(std::ranges::all_of(strides, positive) && std::ranges::all_of(dilations, positive),
               "a stride or a dilation is below 1");
}

std::vector<int64_t> TensorflowWindows::of_image(const std::vector<int64_t>& all) const {
  call_.require(all.size() == static_cast<size_t>(axes_) + 2,
                "its lists do not have a number for each axis");
  const auto begin = all.begin() + (channels_last_ ? 1 : 2);
  return {begin, begin + axes_};
}

Tensor TensorflowWindows::image(const Tensor& x) const {
  call_.require(x.dim() == axes_ + 2, "its input is no image");
  return channels_last_ ? x.movedim(-1, 1) : x;
}

Tensor TensorflowWindows::back(const Tensor& image) const {
  return channels_last_ ? image.movedim(1, -1) : image;
}

void TensorflowWindows::pad_for(const std::vector<int64_t>& sizes,
                                const std::vector<int64_t>& window) {
  const std::string padding = call_.text_attribute("padding", "VALID");
  if (padding == "VALID") return;
  const std::vector<int64_t> given = call_.integers_attribute("explicit_paddings", {});
  const size_t first = channels_last_ ? 1 : 2;
  call_.require(
      padding == "SAME" || (padding == "EXPLICIT" && given.size() == 2 * before.size() + 4),
      "its padding is none that TensorFlow has");
  for (size_t i = 0; i < before.size(); ++i) {
    if (padding == "EXPLICIT") {
      before[i] = given[2 * (first + i)];
      after[i] = given[2 * (first + i) + 1];
      continue;
    }
    const int64_t steps = (sizes[i] + strides[i] - 1) / strides[i];
    const int64_t all = std::max<int64_t>(
        0, (steps - 1) * strides[i] + (window[i] - 1) * dilations[i] + 1 - sizes[i]);
    before[i] = all / 2;
    after[i] = all - before[i];
  }
}

std::vector<int64_t> TensorflowWindows::pads() const {
  std::vector<int64_t> all;
  for (size_t i = before.size(); i > 0; --i) all.insert(all.end(), {before[i - 1], after[i - 1]});
  return all;
}

}  // namespace muster::inline v0_1::imports

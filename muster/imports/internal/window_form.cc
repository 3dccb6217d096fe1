#include "muster/imports/internal/window_form.h"

#include <algorithm>
#include <utility>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {

WindowForm::WindowForm(const NodeRun& call, const Tensor& x, std::vector<int64_t> window)
    : kernel(std::move(window)) {
  const size_t count = kernel.size();
  call.require(x.dim() == static_cast<int64_t>(count) + 2,
               "the image and the window differ in axes");
  strides = call.integers_attribute("strides", std::vector<int64_t>(count, 1));
  dilations = call.integers_attribute("dilations", std::vector<int64_t>(count, 1));
  const std::vector<int64_t> given =
      call.integers_attribute("pads", std::vector<int64_t>(2 * count, 0));
  call.require(strides.size() == count && dilations.size() == count && given.size() == 2 * count,
               "its lists do not have a number for each axis");
  const auto positive = [](int64_t each) { return each > 0; };
  call.require(std::ranges::all_of(strides, positive) && std::ranges::all_of(dilations, positive) &&
                   std::ranges::all_of(kernel, positive),
               "a stride, a dilation or a size of the window is below 1");
  const auto middle = given.begin() + static_cast<std::ptrdiff_t>(count);
  before.assign(given.begin(), middle);
  after.assign(middle, given.end());
  const std::string automatic = call.text_attribute("auto_pad", "NOTSET");
  if (automatic == "NOTSET") return;
  for (size_t i = 0; i < count; ++i) {
    int64_t total = 0;
    if (automatic != "VALID") {
      const int64_t size = x.size(static_cast<int64_t>(i) + 2);
      const int64_t steps = (size + strides[i] - 1) / strides[i];
      total = std::max<int64_t>(
          0, (steps - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size);
    }
    before[i] = automatic == "SAME_LOWER" ? (total + 1) / 2 : total / 2;
    after[i] = total - before[i];
  }
}

std::vector<int64_t> WindowForm::pads() const {
  std::vector<int64_t> all;
  for (size_t i = kernel.size(); i > 0; --i) {
    all.push_back(before[i - 1]);
    all.push_back(after[i - 1]);
  }
  return all;
}

}  // namespace muster::inline v0_1::onnx::internal

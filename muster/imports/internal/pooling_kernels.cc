// Pools over windows and over whole images.
#include <algorithm>
#include <limits>
#include <numeric>

#include "muster/imports/internal/kernels.h"
#include "muster/imports/internal/window_form.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

// What makes the last window of each axis whole, if incomplete ones count: see ceil_mode.
std::vector<int64_t> rest_of_windows(const NodeRun& call, const WindowForm& form, const Tensor& x) {
  std::vector<int64_t> rest(form.axes(), 0);
  if (call.integer_attribute("ceil_mode", 0) == 0) return rest;
  for (size_t i = 0; i < rest.size(); ++i) {
    const int64_t size = x.size(static_cast<int64_t>(i) + 2);
    const int64_t window = (form.kernel[i] - 1) * form.dilations[i] + 1;
    const int64_t padded = size + form.before[i] + form.after[i];
    int64_t steps = (padded - window + form.strides[i] - 1) / form.strides[i] + 1;
    // A window that begins in the padding after the image does not count.
    if ((steps - 1) * form.strides[i] >= size + form.before[i]) --steps;
    rest[i] = std::max<int64_t>(0, (steps - 1) * form.strides[i] + window - padded);
  }
  return rest;
}

WindowForm with_rest(WindowForm form, const std::vector<int64_t>& rest) {
  for (size_t i = 0; i < rest.size(); ++i) form.after[i] += rest[i];
  return form;
}

// Of each window, its numbers along a new last axis.
Tensor windows_of(const WindowForm& form, Tensor x) {
  for (size_t i = 0; i < form.axes(); ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    const int64_t window = (form.kernel[i] - 1) * form.dilations[i] + 1;
    x = x.unfold(axis, window, form.strides[i]);
    if (form.dilations[i] > 1) x = x.slice(-1, 0, window, form.dilations[i]);
  }
  return x.flatten(-static_cast<int64_t>(form.axes()));
}

Tensor least_of(DType dtype) {
  const Tensor one = torch::zeros({}, at::TensorOptions(dtype));
  if (at::isFloatingType(dtype)) return one.fill_(-std::numeric_limits<double>::infinity());
  return one.fill_(dtype == at::kByte ? 0 : -128);
}

Results pool_largest(NodeRun& call) {
  const Tensor x = call.in(0);
  const WindowForm form(call, x, call.integers_attribute("kernel_shape", {}));
  const bool ceil = call.integer_attribute("ceil_mode", 0) != 0;
  bool half = form.same_on_both_sides();
  for (size_t i = 0; i < form.axes(); ++i) half = half && 2 * form.before[i] <= form.kernel[i];
  const bool floats = x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble;
  if (half && floats && !call.wants(1) && form.axes() <= 3 && form.axes() > 0) {
    const auto& f = form;
    if (f.axes() == 1) return {at::max_pool1d(x, f.kernel, f.strides, f.before, f.dilations, ceil)};
    if (f.axes() == 2) return {at::max_pool2d(x, f.kernel, f.strides, f.before, f.dilations, ceil)};
    return {at::max_pool3d(x, f.kernel, f.strides, f.before, f.dilations, ceil)};
  }
  const WindowForm whole = with_rest(form, rest_of_windows(call, form, x));
  const auto padded = [&](const Tensor& tensor, const Tensor& filling) {
    return windows_of(whole, at::constant_pad_nd(tensor, whole.pads(), filling.item()));
  };
  const Tensor windows = padded(x, least_of(x.scalar_type()));
  const auto [largest, which] = windows.max(-1);
  if (!call.wants(1)) return {largest};
  if (call.integer_attribute("storage_order", 0) != 0 && form.axes() != 2)
    call.refuse("has a storage_order of 1, and no image of two axes");
  // The place of each number in the whole tensor.
  Tensor places = at::arange(x.numel(), x.options().dtype(at::kLong)).reshape(x.sizes());
  if (call.integer_attribute("storage_order", 0) != 0) {
    places = at::arange(x.numel(), x.options().dtype(at::kLong))
                 .reshape({x.size(0), x.size(1), x.size(3), x.size(2)})
                 .transpose(2, 3);
  }
  const Tensor all = padded(places, torch::zeros({}, at::kLong));
  return {largest, all.gather(-1, which.unsqueeze(-1)).squeeze(-1)};
}

Results pool_average(NodeRun& call) {
  const Tensor x = call.in(0);
  const WindowForm form(call, x, call.integers_attribute("kernel_shape", {}));
  const bool padding_counts = call.integer_attribute("count_include_pad", 0) != 0;
  bool simple = form.same_on_both_sides() && call.integer_attribute("ceil_mode", 0) == 0 &&
                std::ranges::all_of(form.dilations, [](int64_t each) { return each == 1; });
  for (size_t i = 0; i < form.axes(); ++i) simple = simple && 2 * form.before[i] <= form.kernel[i];
  if (simple && form.axes() == 2)
    return {at::avg_pool2d(x, form.kernel, form.strides, form.before, false, padding_counts)};
  if (simple && form.axes() == 3)
    return {at::avg_pool3d(x, form.kernel, form.strides, form.before, false, padding_counts)};
  const std::vector<int64_t> rest = rest_of_windows(call, form, x);
  WindowForm outer = form;  // what is added to make windows whole never counts
  std::ranges::fill(outer.before, 0);
  outer.after = rest;
  const Tensor ones = at::ones_like(x.slice(0, 0, 1).slice(1, 0, 1));
  const Tensor counted = at::constant_pad_nd(
      at::constant_pad_nd(ones, form.pads(), padding_counts ? 1 : 0), outer.pads());
  const WindowForm whole = with_rest(form, rest);
  const Tensor sums = windows_of(whole, at::constant_pad_nd(x, whole.pads())).sum(-1);
  return {sums.div(windows_of(whole, counted).sum(-1))};
}

Results pool_lp(NodeRun& call) {
  const Tensor x = call.in(0);
  const WindowForm form(call, x, call.integers_attribute("kernel_shape", {}));
  const auto p = static_cast<double>(call.integer_attribute("p", 2));
  const WindowForm whole = with_rest(form, rest_of_windows(call, form, x));
  const Tensor powers = at::constant_pad_nd(x.abs().pow(p), whole.pads());
  return {windows_of(whole, powers).sum(-1).pow(1 / p)};
}

Results pool_image(NodeRun& call) {
  const Tensor x = call.in(0);
  call.require(x.dim() > 2, "its input is no image");
  std::vector<int64_t> axes(static_cast<size_t>(x.dim() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  if (call.node().operation == "GlobalAveragePool") return {at::mean(x, axes, /*keepdim=*/true)};
  return {at::amax(x, axes, /*keepdim=*/true)};
}

}  // namespace

void add_pooling_kernels(KernelMap& map) {
  map["AveragePool"] = {pool_average};
  map["GlobalAveragePool"] = {pool_image};
  map["GlobalMaxPool"] = {pool_image};
  map["LpPool"] = {pool_lp};
  map["MaxPool"] = {pool_largest};
}

}  // namespace muster::inline v0_1::onnx::internal

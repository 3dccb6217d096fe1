// Products of matrices, convolutions, pools, normalizations, and images of other sizes.
#include <algorithm>
#include <limits>
#include <numeric>

#include "muster/imports/internal/tensorflow_kernels.h"
#include "muster/imports/internal/tensorflow_windows.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {
namespace {

Results multiply_matrices_of(NodeRun& call, const char* first, const char* second) {
  Tensor a = call.in(0), b = call.in(1);
  call.require(a.dim() >= 2 && b.dim() >= 2, "its inputs are not matrices");
  if (call.integer_attribute(first, 0) != 0) a = a.transpose(-2, -1);
  if (call.integer_attribute(second, 0) != 0) b = b.transpose(-2, -1);
  return {at::matmul(a, b)};
}

Results multiply_two(NodeRun& call) {
  return multiply_matrices_of(call, "transpose_a", "transpose_b");
}

Results multiply_batches(NodeRun& call) { return multiply_matrices_of(call, "adj_x", "adj_y"); }

Results contract_axes(NodeRun& call) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < call.inputs(); ++i) all.push_back(call.in(i));
  return {at::einsum(call.attribute("equation").text, all)};
}

// [window..., in / groups, out] to [out, in / groups, window...].
Tensor weight_of(const Tensor& filter) {
  std::vector<int64_t> order(static_cast<size_t>(filter.dim()));
  std::iota(order.begin() + 2, order.end(), 0);
  order[0] = filter.dim() - 1;
  order[1] = filter.dim() - 2;
  return filter.permute(order);
}

Tensor convolved(TensorflowWindows& windows, Tensor x, const Tensor& weight, int64_t groups) {
  windows.pad_for(x.sizes().slice(2).vec(), weight.sizes().slice(2).vec());
  std::vector<int64_t> padding = windows.before;
  if (!windows.same_on_both_sides()) {
    x = at::constant_pad_nd(x, windows.pads());
    std::ranges::fill(padding, 0);
  }
  const std::vector<int64_t> none(padding.size(), 0);
  return windows.back(at::convolution(x, weight, {}, windows.strides, padding, windows.dilations,
                                      /*transposed=*/false, none, groups));
}

template <int64_t kAxes>
Results convolve_image(NodeRun& call) {
  TensorflowWindows windows(call, kAxes);
  const Tensor x = windows.image(call.in(0)), weight = call.in(1);
  call.require(
      weight.dim() == kAxes + 2 && weight.size(kAxes) > 0 && x.size(1) % weight.size(kAxes) == 0,
      "the channels of its image and its filter differ");
  return {convolved(windows, x, weight_of(weight), x.size(1) / weight.size(kAxes))};
}

// The filter is [height, width, in, multiplier].
Results convolve_channels(NodeRun& call) {
  TensorflowWindows windows(call, 2);
  const Tensor x = windows.image(call.in(0)), filter = call.in(1);
  call.require(filter.dim() == 4 && filter.size(2) == x.size(1),
               "the channels of its image and its filter differ");
  const Tensor weight =
      filter.permute({2, 3, 0, 1}).reshape({-1, 1, filter.size(0), filter.size(1)});
  return {convolved(windows, x, weight, x.size(1))};
}

// The gradient of a convolution, which Keras has as a transposed one: (sizes of the result, filter
// [window..., out, in], image).
template <int64_t kAxes>
Results convolve_back(NodeRun& call) {
  TensorflowWindows windows(call, kAxes);
  const Tensor filter = call.in(1), x = windows.image(call.in(2));
  call.require(filter.dim() == kAxes + 2, "its filter is no filter");
  std::vector<int64_t> sizes = call.integers(0);
  if (static_cast<int64_t>(sizes.size()) == kAxes + 2) sizes = windows.of_image(sizes);
  call.require(static_cast<int64_t>(sizes.size()) == kAxes, "its sizes are no image");
  const Tensor weight = weight_of(filter);
  windows.pad_for(sizes, weight.sizes().slice(2).vec());
  const std::vector<int64_t> none(static_cast<size_t>(kAxes), 0);
  const int64_t groups = x.size(1) / std::max<int64_t>(weight.size(0), 1);
  Tensor y = at::convolution(x, weight, {}, windows.strides, none, windows.dilations,
                             /*transposed=*/true, none, std::max<int64_t>(groups, 1));
  // What the padding of the convolution added, and what no window reached.
  std::vector<int64_t> crops;
  for (int64_t i = kAxes - 1; i >= 0; --i) {
    const int64_t before = windows.before[static_cast<size_t>(i)];
    crops.insert(crops.end(), {-before, sizes[static_cast<size_t>(i)] - y.size(i + 2) + before});
  }
  return {windows.back(at::constant_pad_nd(y, crops))};
}

Tensor pooled(bool average, const Tensor& x, const std::vector<int64_t>& window,
              const std::vector<int64_t>& strides) {
  if (!average)
    return window.size() == 2 ? at::max_pool2d(x, window, strides)
                              : at::max_pool3d(x, window, strides);
  return window.size() == 2 ? at::avg_pool2d(x, window, strides)
                            : at::avg_pool3d(x, window, strides);
}

template <int64_t kAxes>
Results pool_windows(NodeRun& call) {
  TensorflowWindows windows(call, kAxes);
  Tensor x = windows.image(call.in(0));
  const std::vector<int64_t> all = call.integers_attribute("ksize", {});
  const std::vector<int64_t> window = windows.of_image(all);
  call.require(
      std::ranges::all_of(all, [](int64_t each) { return each > 0; }) &&
          std::accumulate(all.begin(), all.end(), int64_t{1}, std::multiplies<>()) ==
              std::accumulate(window.begin(), window.end(), int64_t{1}, std::multiplies<>()),
      "its windows are over other axes than the image's");
  const bool average = call.node().operation.starts_with("Avg");
  windows.pad_for(x.sizes().slice(2).vec(), window);
  const std::vector<int64_t> pads = windows.pads();
  if (std::ranges::all_of(pads, [](int64_t each) { return each == 0; }))
    return {windows.back(pooled(average, x, window, windows.strides))};
  if (!average) {
    x = at::constant_pad_nd(x, pads, -std::numeric_limits<double>::infinity());
    return {windows.back(pooled(false, x, window, windows.strides))};
  }
  // The padding does not count.
  const Tensor ones = at::ones_like(x.slice(0, 0, 1).slice(1, 0, 1));
  const Tensor sums = pooled(true, at::constant_pad_nd(x, pads), window, windows.strides);
  const Tensor counts = pooled(true, at::constant_pad_nd(ones, pads), window, windows.strides);
  return {windows.back(sums.div(counts))};
}

// Of a batch or by given statistics; returns those too.
Results normalize_image(NodeRun& call) {
  const Tensor given = call.in(0);
  const std::string format = call.text_attribute("data_format", "NHWC");
  const bool last = !format.starts_with("NC");
  const Tensor x = last ? given.movedim(-1, 1) : given;
  const double epsilon = call.number_attribute("epsilon", 1e-4);
  const DType dtype = x.scalar_type();
  const bool training = call.integer_attribute("is_training", 1) != 0;
  const auto of_channels = [&](size_t input) { return call.in(input).to(dtype); };
  Tensor y, mean, variance;
  if (training) {
    if (call.number_attribute("exponential_avg_factor", 1) != 1)
      call.refuse("keeps a moving average of its batches");
    std::vector<int64_t> axes(static_cast<size_t>(x.dim()));
    std::iota(axes.begin(), axes.end(), 0);
    axes.erase(axes.begin() + 1);
    y = at::batch_norm(x, of_channels(1), of_channels(2), {}, {}, /*training=*/true, /*momentum=*/0,
                       epsilon, /*cudnn_enabled=*/false);
    mean = call.wants(1) ? at::mean(x, axes) : Tensor();
    variance = call.wants(2) ? at::var(x, axes, /*unbiased=*/true) : Tensor();
  } else {
    mean = of_channels(3);
    variance = of_channels(4);
    y = at::batch_norm(x, of_channels(1), of_channels(2), mean, variance, /*training=*/false,
                       /*momentum=*/0, epsilon, /*cudnn_enabled=*/false);
  }
  return {last ? y.movedim(1, -1) : y, mean, variance};
}

// [batch, height, width, channels] to other sizes.
Results resize_image(NodeRun& call) {
  const Tensor x = call.in(0);
  const std::vector<int64_t> sizes = call.integers(1);
  const bool corners = call.integer_attribute("align_corners", 0) != 0,
             centers = call.integer_attribute("half_pixel_centers", 0) != 0;
  call.require(x.dim() == 4 && sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0 && x.numel() > 0,
               "its image or its sizes are none");
  const bool nearest = call.node().operation == "ResizeNearestNeighbor";
  Tensor y = nearest ? x : x.to(at::kFloat);
  for (int64_t axis = 1; axis <= 2; ++axis) {
    const int64_t from = x.size(axis), to = sizes[static_cast<size_t>(axis - 1)];
    const double scale = corners && to > 1
                             ? static_cast<double>(from - 1) / static_cast<double>(to - 1)
                             : static_cast<double>(from) / static_cast<double>(to);
    const Tensor step = at::arange(to, at::kFloat);
    const double most = static_cast<double>(from - 1);
    Tensor place = centers ? step.add(0.5).mul(scale) : step.mul(scale);
    if (nearest) {
      place = corners ? place.add(0.5).floor() : place.floor();
      y = y.index_select(axis, place.clamp(0, most).to(at::kLong).to(x.device()));
      continue;
    }
    if (centers) place = place.sub(0.5);
    const Tensor low = place.floor();
    const Tensor part = place.sub(low).to(x.device());
    const auto at_places = [&](const Tensor& places) {
      return y.index_select(axis, places.clamp(0, most).to(at::kLong).to(x.device()));
    };
    Shape shape(4, 1);
    shape[static_cast<size_t>(axis)] = to;
    y = at::lerp(at_places(low), at_places(low.add(1)), part.reshape(shape));
  }
  return {y};
}

}  // namespace

void add_tensorflow_networks(KernelMap& map) {
  map["AvgPool"] = {pool_windows<2>};
  map["AvgPool3D"] = {pool_windows<3>};
  map["BatchMatMul"] = {multiply_batches, 2};
  map["BatchMatMulV2"] = {multiply_batches, 2};
  map["BatchMatMulV3"] = {multiply_batches, 2};
  map["Conv2D"] = {convolve_image<2>, 2};
  map["Conv2DBackpropInput"] = {convolve_back<2>, 3};
  map["Conv3D"] = {convolve_image<3>, 2};
  map["Conv3DBackpropInputV2"] = {convolve_back<3>, 3};
  map["DepthwiseConv2dNative"] = {convolve_channels, 2};
  map["Einsum"] = {contract_axes};
  map["FusedBatchNorm"] = {normalize_image, 5};
  map["FusedBatchNormV2"] = {normalize_image, 5};
  map["FusedBatchNormV3"] = {normalize_image, 5};
  map["MatMul"] = {multiply_two, 2};
  map["MaxPool"] = {pool_windows<2>};
  map["MaxPool3D"] = {pool_windows<3>};
  map["ResizeBilinear"] = {resize_image, 2, /*sized=*/true};
  map["ResizeNearestNeighbor"] = {resize_image, 2, /*sized=*/true};
}

}  // namespace muster::inline v0_1::imports

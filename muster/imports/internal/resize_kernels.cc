// Resize: each axis by itself, as a choice of places or as a product with a matrix of weights.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "muster/imports/internal/graph_run.h"
#include "muster/imports/internal/kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

// What the attributes of a Resize say.
struct ResizeForm {
  std::string mode, place, nearest;
  double cubic = -0.75, outside = 0;
  bool exclude_outside = false, antialias = false;

  explicit ResizeForm(const NodeRun& call)
      : mode(call.text_attribute("mode", "nearest")),
        place(call.text_attribute("coordinate_transformation_mode", "half_pixel")),
        nearest(call.text_attribute("nearest_mode", "round_prefer_floor")),
        cubic(call.number_attribute("cubic_coeff_a", -0.75)),
        outside(call.number_attribute("extrapolation_value", 0)),
        exclude_outside(call.integer_attribute("exclude_outside", 0) != 0),
        antialias(call.integer_attribute("antialias", 0) != 0) {}
};

// One axis: its sizes, its scale, and the part of it that tf_crop_and_resize takes.
struct ResizedAxis {
  int64_t axis = 0, in = 0, out = 0;
  double scale = 1, begin = 0, end = 1;
  double resized = 0;  // `out`, before it was rounded

  // Where the number `i` of the result is in the input.
  double source(const ResizeForm& form, int64_t i) const {
    const auto x = static_cast<double>(i), size = static_cast<double>(in),
               result = static_cast<double>(out);
    if (form.place == "asymmetric") return x / scale;
    if (form.place == "align_corners") return out == 1 ? 0 : x * (size - 1) / (resized - 1);
    if (form.place == "pytorch_half_pixel" && out == 1) return 0;
    if (form.place == "tf_crop_and_resize") {
      return out > 1 ? begin * (size - 1) + x * (end - begin) * (size - 1) / (result - 1)
                     : 0.5 * (begin + end) * (size - 1);
    }
    if (form.place == "half_pixel_symmetric") {
      const double adjustment = result / (scale * size), center = size / 2;
      return center * (1 - adjustment) + (x + 0.5) / scale - 0.5;
    }
    return (x + 0.5) / scale - 0.5;
  }
};

int64_t nearest_place(const ResizeForm& form, double x) {
  if (form.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (form.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (form.nearest == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));
}

double cubic_weight(double distance, double a) {
  const double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

// [out, in]: the weights of the numbers of the input in each of the result.
Tensor weights_of(const ResizeForm& form, const ResizedAxis& of) {
  Tensor weights = torch::zeros({of.out, of.in}, at::kDouble);
  auto* rows = weights.data_ptr<double>();
  const bool linear = form.mode == "linear";
  // With antialias the window grows with what is left out.
  const double shrink = form.antialias ? std::min(of.scale, 1.0) : 1;
  const double reach = (linear ? 1 : 2) / shrink;
  for (int64_t i = 0; i < of.out; ++i) {
    const double source = of.source(form, i);
    double* row = rows + i * of.in;
    if (form.place == "tf_crop_and_resize" &&
        (source < 0 || source > static_cast<double>(of.in - 1)))
      continue;  // the extrapolation value
    double total = 0;
    const auto first = static_cast<int64_t>(std::floor(source - reach)) + 1;
    const auto last = static_cast<int64_t>(std::ceil(source + reach)) - 1;
    for (int64_t j = first; j <= last; ++j) {
      const double distance = (static_cast<double>(j) - source) * shrink;
      const double weight =
          linear ? std::max(0.0, 1 - std::abs(distance)) : cubic_weight(distance, form.cubic);
      const bool outside = j < 0 || j >= of.in;
      if (outside && form.exclude_outside) continue;
      total += weight;
      row[std::clamp<int64_t>(j, 0, of.in - 1)] += weight;
    }
    if (total != 0 && (form.exclude_outside || form.antialias)) {
      for (int64_t j = 0; j < of.in; ++j) row[j] /= total;
    }
  }
  return weights;
}

Tensor resize_axis(const ResizeForm& form, const ResizedAxis& of, const Tensor& x) {
  Tensor places, weights, outside;
  {
    const Apart apart;
    std::vector<int64_t> each;
    std::vector<uint8_t> is_outside;
    for (int64_t i = 0; i < of.out; ++i) {
      const double source = of.source(form, i);
      each.push_back(std::clamp<int64_t>(nearest_place(form, source), 0, of.in - 1));
      is_outside.push_back(form.place == "tf_crop_and_resize" &&
                           (source < 0 || source > static_cast<double>(of.in - 1)));
    }
    if (form.mode == "nearest") {
      places = torch::tensor(each, at::kLong).to(x.device());
    } else {
      weights = weights_of(form, of);
    }
    if (std::ranges::any_of(is_outside, [](uint8_t one) { return one != 0; })) {
      Shape shape(static_cast<size_t>(x.dim()), 1);
      shape[static_cast<size_t>(of.axis)] = of.out;
      outside = torch::tensor(std::vector<int64_t>(is_outside.begin(), is_outside.end()), at::kLong)
                    .to(at::kBool)
                    .reshape(shape)
                    .to(x.device());
    }
  }
  Tensor y;
  if (places.defined()) {
    y = x.index_select(of.axis, places);
  } else {
    const DType dtype = at::isFloatingType(x.scalar_type()) ? x.scalar_type() : at::kFloat;
    const Tensor matrix = weights.to(x.device(), dtype).t();
    y = at::matmul(x.to(dtype).transpose(of.axis, -1), matrix).transpose(of.axis, -1);
  }
  return outside.defined() ? y.masked_fill(outside, form.outside) : y;
}

Results resize(NodeRun& call) {
  Tensor x = call.in(0);
  const ResizeForm form(call);
  call.require(form.mode == "nearest" || form.mode == "linear" || form.mode == "cubic",
               "its mode is unknown");
  std::vector<int64_t> axes = call.integers_attribute("axes", {});
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(x.dim()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const auto numbers_of = [&](size_t input) {
    std::vector<double> numbers;
    if (!call.has(input) || call.value(input).tensor.numel() == 0) return numbers;
    const Apart apart;
    const Tensor all = call.value(input).tensor.to(at::kCPU, at::kDouble).contiguous();
    numbers.assign(all.data_ptr<double>(), all.data_ptr<double>() + all.numel());
    return numbers;
  };
  const std::vector<double> roi = numbers_of(1);
  std::vector<double> scales = numbers_of(2), sizes = numbers_of(3);
  const bool by_size = !sizes.empty();
  call.require((by_size ? sizes : scales).size() == axes.size(),
               "it does not have a scale or a size for each axis");
  const std::string policy = call.text_attribute("keep_aspect_ratio_policy", "stretch");
  std::vector<ResizedAxis> all;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis one{.axis = call.normalized(axes[i], x.dim())};
    one.in = x.size(one.axis);
    const auto size = static_cast<double>(one.in);
    one.scale = by_size ? sizes[i] / size : scales[i];
    one.resized = by_size ? sizes[i] : size * scales[i];
    one.out = static_cast<int64_t>(std::floor(one.resized));
    if (roi.size() == 2 * axes.size()) {
      one.begin = roi[i];
      one.end = roi[axes.size() + i];
    }
    call.require(one.in > 0 && one.out >= 0 && std::isfinite(one.scale) && one.scale > 0,
                 "a size or a scale is not above 0");
    all.push_back(one);
  }
  if (by_size && policy != "stretch") {
    double scale = all.front().scale;
    for (const ResizedAxis& one : all)
      scale = policy == "not_larger" ? std::min(scale, one.scale) : std::max(scale, one.scale);
    for (ResizedAxis& one : all) {
      one.scale = scale;
      one.out = static_cast<int64_t>(std::floor(static_cast<double>(one.in) * scale + 0.5));
      one.resized = static_cast<double>(one.out);
    }
  }
  const DType dtype = x.scalar_type();
  for (const ResizedAxis& one : all) {
    const bool same = one.in == one.out && one.scale == 1 && form.place != "tf_crop_and_resize";
    if (!same) x = resize_axis(form, one, x);
  }
  return {x.to(dtype)};
}

// Of an image of two axes; `grid` has places from -1 to 1.
Results sample_grid(NodeRun& call) {
  const std::string mode = call.text_attribute("mode", "linear");
  const std::string padding = call.text_attribute("padding_mode", "zeros");
  const int64_t number = mode == "nearest" ? 1 : mode == "cubic" || mode == "bicubic" ? 2 : 0;
  const int64_t outside = padding == "border" ? 1 : padding == "reflection" ? 2 : 0;
  const Tensor x = call.in(0);
  const bool aligned = call.integer_attribute("align_corners", 0) != 0;
  if (x.dim() == 5 && number == 1) call.refuse("takes the nearest place in an image of three axes");
  if (x.dim() == 5) return {at::grid_sampler_3d(x, call.in(1), number, outside, aligned)};
  return {at::grid_sampler(x, call.in(1), number, outside, aligned)};
}

}  // namespace

void add_resize_kernels(KernelMap& map) {
  map["GridSample"] = {sample_grid, 2};
  map["Resize"] = {resize};
}

}  // namespace muster::inline v0_1::onnx::internal

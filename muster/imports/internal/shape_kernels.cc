// The order and the number of elements: reshape, join, cut, repeat, fill.
#include <algorithm>
#include <limits>
#include <numeric>

#include "muster/imports/internal/graph_run.h"
#include "muster/imports/internal/kernels.h"
#include "muster/imports/internal/tensor_parts.h"
#include "muster/imports/internal/tensor_reader.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

Tensor list_of(const std::vector<int64_t>& numbers) {
  const Apart apart;
  return torch::tensor(numbers, at::kLong);
}

Results shape(NodeRun& call) {
  const Tensor& x = call.value(0).tensor;
  call.know_sizes();
  const auto clamped = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + x.dim() : axis, 0, x.dim());
  };
  const int64_t begin = clamped(call.integer_attribute("start", 0));
  const int64_t end = clamped(call.integer_attribute("end", x.dim()));
  std::vector<int64_t> sizes;
  for (int64_t axis = begin; axis < end; ++axis) sizes.push_back(x.size(axis));
  return {list_of(sizes)};
}

Results count(NodeRun& call) {
  call.know_sizes();
  return {list_of({call.value(0).tensor.numel()}).squeeze(0)};
}

Results reshape(NodeRun& call) {
  const Tensor x = call.in(0);
  std::vector<int64_t> sizes = call.integers(1);
  const bool zeros = call.integer_attribute("allowzero", 0) != 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] != 0 || zeros) continue;
    call.require(static_cast<int64_t>(axis) < x.dim(), "it keeps an axis that the input has not");
    sizes[axis] = x.size(static_cast<int64_t>(axis));
  }
  return {x.reshape(sizes)};
}

Results flatten(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t given = call.integer_attribute("axis", 1);
  const int64_t axis = given < 0 ? given + x.dim() : given;
  call.require(axis >= 0 && axis <= x.dim(), "an axis is out of range");
  int64_t rows = 1, columns = 1;
  for (int64_t i = 0; i < x.dim(); ++i) (i < axis ? rows : columns) *= x.size(i);
  return {x.reshape({rows, columns})};
}

Results squeeze(NodeRun& call) {
  Tensor x = call.in(0);
  std::vector<int64_t> axes = call.axes(1, x.dim());
  if (axes.empty() && !call.has(1)) return {x.squeeze()};
  std::ranges::sort(axes, std::greater<>());
  for (const int64_t axis : axes) {
    call.require(x.size(axis) == 1, "the size of an axis is not 1");
    x = x.squeeze(axis);
  }
  return {x};
}

Results unsqueeze(NodeRun& call) {
  Tensor x = call.in(0);
  std::vector<int64_t> axes = call.integers(1);
  const int64_t rank = x.dim() + static_cast<int64_t>(axes.size());
  for (int64_t& axis : axes) axis = call.normalized(axis, rank);
  std::ranges::sort(axes);
  for (const int64_t axis : axes) x = x.unsqueeze(axis);
  return {x};
}

Results transpose(NodeRun& call) {
  const Tensor x = call.in(0);
  std::vector<int64_t> order(static_cast<size_t>(x.dim()));
  std::iota(order.rbegin(), order.rend(), 0);
  return {x.permute(call.integers_attribute("perm", order))};
}

Results concat(NodeRun& call) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < call.inputs(); ++i) all.push_back(call.in(i));
  return {at::cat(all, call.axis("axis", 0, all.front().dim()))};
}

Results split_tensor(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t axis = call.axis("axis", 0, x.dim()), size = x.size(axis);
  std::vector<int64_t> sizes;
  if (call.has(1)) {
    sizes = call.integers(1);
  } else {
    const auto parts = call.integer_attribute("num_outputs", static_cast<int64_t>(call.outputs()));
    call.require(parts > 0, "it has no outputs");
    const int64_t each = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  return x.split_with_sizes(sizes, axis);
}

Results slice(NodeRun& call) {
  Tensor x = call.in(0);
  const std::vector<int64_t> begins = call.integers(1), ends = call.integers(2);
  std::vector<int64_t> axes(begins.size()), steps(begins.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has(3)) axes = call.integers(3);
  if (call.has(4)) steps = call.integers(4);
  call.require(
      axes.size() == begins.size() && ends.size() == begins.size() && steps.size() == begins.size(),
      "its lists have different lengths");
  for (size_t i = 0; i < begins.size(); ++i) {
    const int64_t axis = call.normalized(axes[i], x.dim()), step = steps[i];
    call.require(step != 0, "a step is 0");
    x = slice_axis(x, axis, begins[i], ends[i], step);
  }
  return {x};
}

// The shape to which both broadcast.
Results expand(NodeRun& call) {
  const Tensor x = call.in(0);
  std::vector<int64_t> wanted = call.integers(1);
  const auto rank = static_cast<size_t>(x.dim());
  if (wanted.size() < rank) wanted.insert(wanted.begin(), rank - wanted.size(), 1);
  for (size_t i = 0; i < rank; ++i) {
    int64_t& size = wanted[wanted.size() - rank + i];
    if (size == 1) size = x.size(static_cast<int64_t>(i));
  }
  return {x.expand(wanted)};
}

Results tile(NodeRun& call) { return {call.in(0).repeat(call.integers(1))}; }

Results fill(NodeRun& call) {
  const std::vector<int64_t> sizes = call.integers(0);
  const bool given = call.has_attribute("value");
  const Tensor value = given ? call.attribute("value").tensor : torch::zeros({}, at::kFloat);
  call.require(value.defined() && value.numel() == 1, "its value is not one number");
  const auto options = value.options().device(call.graph().device());
  if (at::isFloatingType(value.scalar_type()))
    return {at::full(sizes, value.to(at::kDouble).item<double>(), options)};
  return {at::full(sizes, value.to(at::kLong).item<int64_t>(), options)};
}

Results range(NodeRun& call) {
  const DType dtype = call.value(0).tensor.scalar_type();
  const auto options = at::TensorOptions(dtype).device(call.graph().device());
  if (!at::isFloatingType(dtype)) {
    const int64_t begin = call.integer(0), end = call.integer(1), step = call.integer(2);
    call.require(step != 0, "its step is 0");
    if (step > 0 ? end <= begin : end >= begin) return {at::empty({0}, options)};
    return {at::arange(begin, end, step, options)};
  }
  const double begin = call.number(0), end = call.number(1), step = call.number(2);
  call.require(step != 0, "its step is 0");
  if (step > 0 ? end <= begin : end >= begin) return {at::empty({0}, options)};
  return {at::arange(begin, end, step, options)};
}

Results pad(NodeRun& call) {
  Tensor x = call.in(0);
  const std::string mode = call.text_attribute("mode", "constant");
  const std::vector<int64_t> pads = call.integers(1);
  std::vector<int64_t> axes = call.has(3) ? call.integers(3) : std::vector<int64_t>();
  if (!call.has(3)) {
    axes.resize(static_cast<size_t>(x.dim()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  call.require(pads.size() == 2 * axes.size(), "it has a pad too many or too few");
  std::vector<int64_t> both(2 * static_cast<size_t>(x.dim()));  // the last axis first
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = call.normalized(axes[i], x.dim());
    const int64_t before = pads[i], after = pads[axes.size() + i];
    const auto place = 2 * static_cast<size_t>(x.dim() - 1 - axis);
    both[place] = before;
    both[place + 1] = after;
    if (mode == "constant") continue;
    call.require(x.size(axis) > 0, "an axis has no numbers to repeat");
    const Tensor places = list_of(places_of(mode, before, after, x.size(axis))).to(x.device());
    x = x.index_select(axis, places);
  }
  if (mode != "constant") return {x};
  return {at::constant_pad_nd(x, both, call.has(2) ? call.number(2) : 0)};
}

Results trilu(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t diagonal = call.has(1) ? call.integer(1) : 0;
  return {call.integer_attribute("upper", 1) != 0 ? at::triu(x, diagonal) : at::tril(x, diagonal)};
}

Results eye(NodeRun& call) {
  const Tensor x = call.in(0);
  call.require(x.dim() == 2, "its input is not a matrix");
  const DType dtype =
      call.has_attribute("dtype")
          ? dtype_of_element(static_cast<int>(call.attribute("dtype").integer), call.node().label)
          : x.scalar_type();
  const auto options = x.options().dtype(at::kLong);
  const Tensor rows = at::arange(x.size(0), options).unsqueeze(1),
               columns = at::arange(x.size(1), options);
  return {rows.add(call.integer_attribute("k", 0)).eq(columns).to(dtype)};
}

Results depth_to_space(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t b = call.integer_attribute("blocksize", 0);
  call.require(x.dim() == 4 && b > 0 && x.size(1) % (b * b) == 0, "its channels are no blocks");
  const int64_t n = x.size(0), c = x.size(1) / (b * b), h = x.size(2), w = x.size(3);
  const Tensor moved = call.text_attribute("mode", "DCR") == "DCR"
                           ? x.reshape({n, b, b, c, h, w}).permute({0, 3, 4, 1, 5, 2})
                           : x.reshape({n, c, b, b, h, w}).permute({0, 1, 4, 2, 5, 3});
  return {moved.reshape({n, c, h * b, w * b})};
}

Results space_to_depth(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t b = call.integer_attribute("blocksize", 0);
  call.require(x.dim() == 4 && b > 0 && x.size(2) % b == 0 && x.size(3) % b == 0,
               "its image is no blocks");
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2) / b, w = x.size(3) / b;
  const Tensor blocks = x.reshape({n, c, h, b, w, b});
  const Tensor moved = call.text_attribute("mode", "DCR") == "DCR"
                           ? blocks.permute({0, 3, 5, 1, 2, 4})
                           : blocks.permute({0, 1, 3, 5, 2, 4});
  return {moved.reshape({n, c * b * b, h, w})};
}

}  // namespace

void add_shape_kernels(KernelMap& map) {
  map["Concat"] = {concat};
  map["ConstantOfShape"] = {fill, 1, /*sized=*/true};
  map["DepthToSpace"] = {depth_to_space};
  map["Expand"] = {expand, 2, /*sized=*/true};
  map["EyeLike"] = {eye, 1, /*sized=*/true};
  map["Flatten"] = {flatten};
  map["Pad"] = {pad, 2, /*sized=*/true};
  map["Range"] = {range, 3, /*sized=*/true};
  map["Reshape"] = {reshape, 2};
  map["Shape"] = {shape};
  map["Size"] = {count};
  map["Slice"] = {slice, 3};
  map["SpaceToDepth"] = {space_to_depth};
  map["Split"] = {split_tensor};
  map["Squeeze"] = {squeeze};
  map["Tile"] = {tile, 2, /*sized=*/true};
  map["Transpose"] = {transpose};
  map["Trilu"] = {trilu};
  map["Unsqueeze"] = {unsqueeze, 2};
}

}  // namespace muster::inline v0_1::onnx::internal

#include "muster/savedmodel/internal/windows.h"

#include <algorithm>

namespace muster::inline v0_1::saved_model::internal {
namespace {

std::string expanded(Call& call, const std::string& value, int64_t axis) {
  return call.add("ExpandDims", {value, call.graph().int32(axis)},
                  {{"Tdim", type_value(BundleDtype::kInt32)}});
}

Windows windows_of(Call& call, std::vector<int64_t> kernel) {
  const size_t axes = kernel.size();
  const auto numbers = [&](const char* name, size_t count, int64_t otherwise) {
    auto given = call.integers(name);
    if (given.empty()) given.assign(count, otherwise);
    return given;
  };
  Windows windows{.kernel = std::move(kernel),
                  .strides = numbers("strides", axes, 1),
                  .dilations = numbers("dilations", axes, 1),
                  .pads = numbers("pads", 2 * axes, 0),
                  .sizes = {call.shape(0).begin() + 2, call.shape(0).end()}};
  if (axes > 3) call.refuse("has more than 3 axes");
  if (axes == 1) {
    windows.widened = true;
    for (auto* list : {&windows.kernel, &windows.strides, &windows.dilations, &windows.sizes})
      list->insert(list->begin(), 1);
    windows.pads = {0, windows.pads[0], 0, windows.pads[1]};
  }
  return windows;
}

}  // namespace

std::string shape32_of(Call& call, const std::string& value) {
  return call.add_as(BundleDtype::kInt32, "Shape", {value},
                     {{"T", type_value(call.graph().dtype(value))},
                      {"out_type", type_value(BundleDtype::kInt32)}});
}

Windows Windows::of_convolution(Call& call) {
  return windows_of(call, {call.shape(1).begin() + 2, call.shape(1).end()});
}

Windows Windows::of_pool(Call& call) { return windows_of(call, call.integers("kernel_shape")); }

std::vector<int64_t> Windows::with_batch_and_channels(const std::vector<int64_t>& numbers) const {
  std::vector<int64_t> all{1};
  all.insert(all.end(), numbers.begin(), numbers.end());
  all.push_back(1);
  return all;
}

std::string Windows::image(Call& call) const {
  const auto rank = static_cast<int64_t>(call.shape(0).size());
  std::vector<int64_t> order{0};
  for (int64_t axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  const std::string last = call.transpose(call.in(0), order);
  return widened ? expanded(call, last, 1) : last;
}

std::string Windows::channels_first(Call& call, const std::string& image) const {
  const std::string narrow =
      widened ? call.add("Squeeze", {image}, {{"squeeze_dims", integer_values({1})}}) : image;
  const auto rank = static_cast<int64_t>(call.shape(0).size());
  std::vector<int64_t> order{0, rank - 1};
  for (int64_t axis = 1; axis + 1 < rank; ++axis) order.push_back(axis);
  return call.transpose(narrow, order);
}

std::string Windows::without_holes(Call& call, const std::string& kernel_value,
                                   std::vector<int64_t> shape) {
  std::string value = kernel_value;
  for (size_t axis = 0; axis < axes(); ++axis) {
    const int64_t hole = dilations[axis], size = kernel[axis];
    if (hole == 1 || size == 1) continue;
    // [..., size, 1, ...] to [..., size, hole, ...], and so many of these numbers.
    std::vector<int64_t> apart = shape;
    apart.insert(apart.begin() + static_cast<int64_t>(axis) + 1, 1);
    std::vector<int64_t> pads(2 * apart.size(), 0);
    pads[apart.size() + axis + 1] = hole - 1;
    value = surrounded(call, call.reshape_to(value, apart), pads, 0);
    shape[axis] = size * hole;
    value = call.reshape_to(value, shape);
    shape[axis] = (size - 1) * hole + 1;
    value = call.add("Slice",
                     {value, call.graph().int32s(std::vector<int64_t>(shape.size(), 0)),
                      call.graph().int32s(shape)},
                     {{"Index", type_value(BundleDtype::kInt32)}});
    kernel[axis] = shape[axis];
  }
  std::ranges::fill(dilations, 1);
  return value;
}

bool Windows::is_same() const {
  for (size_t axis = 0; axis < axes(); ++axis) {
    const int64_t size = sizes[axis], stride = strides[axis];
    if (size < 0 && stride != 1) return false;
    const int64_t most = (kernel[axis] - 1) * dilations[axis] + 1;
    const int64_t count = stride == 1 ? size : (size + stride - 1) / stride;
    const int64_t all =
        std::max<int64_t>(stride == 1 ? most - 1 : (count - 1) * stride + most - size, 0);
    if (pads[axis] != all / 2 || pads[axes() + axis] != all - all / 2) return false;
  }
  return true;
}

std::string Windows::surrounded(Call& call, const std::string& value,
                                const std::vector<int64_t>& pads, double number) {
  if (std::ranges::all_of(pads, [](int64_t pad) { return pad == 0; })) return value;
  const auto rank = static_cast<int64_t>(pads.size() / 2);
  std::vector<int64_t> pairs;
  for (int64_t i = 0; i < rank; ++i) {
    pairs.push_back(pads[static_cast<size_t>(i)]);
    pairs.push_back(pads[static_cast<size_t>(rank + i)]);
  }
  const std::string paddings = call.reshape_to(call.graph().int32s(pairs), {rank, 2});
  return call.add("PadV2", {value, paddings, call.number_like(value, number)},
                  {{"Tpaddings", type_value(BundleDtype::kInt32)}});
}

std::string Windows::padded(Call& call, const std::string& image, double number) {
  if (std::ranges::any_of(pads, [](int64_t pad) { return pad != 0; }) && is_same()) {
    padding = "SAME";
    return image;
  }
  return around(call, image, pads, number);
}

std::string Windows::around(Call& call, const std::string& image, const std::vector<int64_t>& pads,
                            double number) {
  const auto half = static_cast<int64_t>(pads.size() / 2);
  std::vector<int64_t> all{0};
  all.insert(all.end(), pads.begin(), pads.begin() + half);
  all.insert(all.end(), {0, 0});
  all.insert(all.end(), pads.begin() + half, pads.end());
  all.push_back(0);
  return surrounded(call, image, all, number);
}

bool Windows::make_strides_equal() {
  // An axis of size 1 has one window, whatever the stride.
  if (widened) strides[0] = strides[1];
  return std::ranges::all_of(strides, [&](int64_t stride) { return stride == strides[0]; });
}

}  // namespace muster::inline v0_1::saved_model::internal

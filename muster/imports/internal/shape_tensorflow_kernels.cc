// Shapes and the order of elements: reshape, join, cut, repeat, fill.
#include <algorithm>
#include <limits>
#include <numeric>

#include "muster/imports/internal/graph_run.h"
#include "muster/imports/internal/tensor_parts.h"
#include "muster/imports/internal/tensorflow_kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {
namespace {

Results shape_as_numbers(NodeRun& call) {
  const DType dtype = dtype_attribute(call, "out_type", at::kInt);
  call.know_sizes();
  Results all;
  for (size_t i = 0; i < call.inputs(); ++i)
    all.push_back(integers_of(call.value(i).tensor.sizes().vec(), dtype));
  return all;
}

Results count_elements(NodeRun& call) {
  const DType dtype = dtype_attribute(call, "out_type", at::kInt);
  call.know_sizes();
  return {integers_of({call.value(0).tensor.numel()}, dtype).squeeze(0)};
}

Results count_axes(NodeRun& call) {
  call.know_sizes();
  return {integers_of({call.value(0).tensor.dim()}, at::kInt).squeeze(0)};
}

Results change_shape(NodeRun& call) { return {call.in(0).reshape(call.integers(1))}; }

Results drop_axes(NodeRun& call) {
  Tensor x = call.in(0);
  const char* name = call.has_attribute("squeeze_dims") ? "squeeze_dims" : "axis";
  std::vector<int64_t> axes = call.integers_attribute(name, {});
  if (axes.empty()) return {x.squeeze()};
  for (int64_t& axis : axes) axis = call.normalized(axis, x.dim());
  std::ranges::sort(axes, std::greater<>());
  for (const int64_t axis : axes) {
    call.require(x.size(axis) == 1, "the size of an axis is not 1");
    x = x.squeeze(axis);
  }
  return {x};
}

Results add_axis(NodeRun& call) {
  const Tensor x = call.in(0);
  return {x.unsqueeze(axis_in(call, 1, x.dim() + 1))};
}

Results permute_axes(NodeRun& call) { return {call.in(0).permute(call.integers(1))}; }

Results join_tensors(NodeRun& call) {
  const bool axis_first = call.node().operation == "Concat";
  const size_t axis = axis_first ? 0 : call.inputs() - 1;
  std::vector<Tensor> all;
  for (size_t i = axis_first ? 1 : 0; i < call.inputs() - (axis_first ? 0 : 1); ++i)
    all.push_back(call.in(i));
  return {at::cat(all, axis_in(call, axis, all.front().dim()))};
}

Results stack_tensors(NodeRun& call) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < call.inputs(); ++i) all.push_back(call.in(i));
  return {at::stack(all, call.axis("axis", 0, all.front().dim() + 1))};
}

Results unstack_tensor(NodeRun& call) {
  const Tensor x = call.in(0);
  return x.unbind(call.axis("axis", 0, x.dim()));
}

Results split_evenly(NodeRun& call) {
  const Tensor x = call.in(1);
  const int64_t axis = axis_in(call, 0, x.dim());
  const int64_t parts = call.integer_attribute("num_split", 1);
  call.require(parts > 0 && x.size(axis) % parts == 0, "its parts are not equal");
  if (x.size(axis) == 0) return Results(static_cast<size_t>(parts), x);
  return x.split(x.size(axis) / parts, axis);
}

Results split_by_sizes(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t axis = axis_in(call, 2, x.dim());
  std::vector<int64_t> sizes = call.integers(1);
  const auto rest = std::ranges::find(sizes, -1);
  if (rest != sizes.end())
    *rest = x.size(axis) - (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) + 1);
  return x.split_with_sizes(sizes, axis);
}

Results cut_out(NodeRun& call) {
  Tensor x = call.in(0);
  const std::vector<int64_t> begins = call.integers(1), sizes = call.integers(2);
  call.require(begins.size() == sizes.size() && static_cast<int64_t>(begins.size()) == x.dim(),
               "its lists do not have a number for each axis");
  for (size_t i = 0; i < begins.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const int64_t left = x.size(axis) - begins[i], size = sizes[i] == -1 ? left : sizes[i];
    call.require(begins[i] >= 0 && size >= 0 && size <= left, "a part is out of range");
    x = x.slice(axis, begins[i], begins[i] + size);
  }
  return {x};
}

Results strided_slice(NodeRun& call) {
  Tensor x = call.in(0);
  const std::vector<int64_t> begins = call.integers(1), ends = call.integers(2),
                             steps = call.integers(3);
  call.require(begins.size() == ends.size() && begins.size() == steps.size(),
               "its lists have different lengths");
  call.require(begins.size() < 64, "it has more axes than a tensor");
  const auto mask = [&](const char* name) {
    return static_cast<uint64_t>(call.integer_attribute(name, 0));
  };
  const uint64_t begin_mask = mask("begin_mask"), end_mask = mask("end_mask"),
                 ellipsis = mask("ellipsis_mask"), added = mask("new_axis_mask"),
                 dropped = mask("shrink_axis_mask");
  const auto has = [](uint64_t bits, size_t i) { return (bits >> i & 1) != 0; };
  // The axes that an ellipsis means are those that nothing else takes.
  int64_t rest = x.dim();
  for (size_t i = 0; i < begins.size(); ++i) rest -= has(ellipsis | added, i) ? 0 : 1;
  call.require(rest >= 0, "it has more axes than its input");
  int64_t axis = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    if (has(ellipsis, i)) {
      axis += rest;
    } else if (has(added, i)) {
      x = x.unsqueeze(axis++);
    } else if (has(dropped, i)) {
      x = x.select(axis, begins[i]);
    } else {
      using Limits = std::numeric_limits<int64_t>;
      call.require(steps[i] != 0, "a step is 0");
      const bool forward = steps[i] > 0;
      const int64_t begin = !has(begin_mask, i) ? begins[i]
                            : forward           ? Limits::min()
                                                : Limits::max();
      const int64_t end = !has(end_mask, i) ? ends[i] : forward ? Limits::max() : Limits::min();
      x = onnx::internal::slice_axis(x, axis++, begin, end, steps[i]);
    }
  }
  return {x};
}

Results fill_with(NodeRun& call) {
  const std::vector<int64_t> sizes = call.integers(0);
  return {call.in(1).expand(sizes).clone()};
}

// The shape to which shapes broadcast.
Results broadcast_shapes(NodeRun& call) {
  const std::vector<int64_t> a = call.integers(0), b = call.integers(1);
  std::vector<int64_t> sizes(std::max(a.size(), b.size()), 1);
  for (const auto* each : {&a, &b}) {
    for (size_t i = 0; i < each->size(); ++i) {
      int64_t& size = sizes[sizes.size() - each->size() + i];
      if ((*each)[i] == 1) continue;
      call.require(size == 1 || size == (*each)[i], "the shapes do not broadcast");
      size = (*each)[i];
    }
  }
  return {integers_of(sizes, call.value(0).tensor.scalar_type())};
}

// For constant_pad_nd(), the last axis first, of [axes, 2].
std::vector<int64_t> paddings_of(NodeRun& call, const Tensor& x) {
  const std::vector<int64_t> given = call.integers(1);
  call.require(static_cast<int64_t>(given.size()) == 2 * x.dim(),
               "it has a pad too many or too few");
  std::vector<int64_t> pads;
  for (size_t i = given.size(); i > 0; i -= 2)
    pads.insert(pads.end(), {given[i - 2], given[i - 1]});
  return pads;
}

Results pad_with_number(NodeRun& call) {
  const Tensor x = call.in(0);
  return {at::constant_pad_nd(x, paddings_of(call, x), call.has(2) ? call.number(2) : 0)};
}

Results pad_with_mirror(NodeRun& call) {
  Tensor x = call.in(0);
  const std::vector<int64_t> pads = call.integers(1);
  const bool symmetric = call.text_attribute("mode", "REFLECT") == "SYMMETRIC";
  call.require(static_cast<int64_t>(pads.size()) == 2 * x.dim(),
               "it has a pad too many or too few");
  for (int64_t axis = 0; axis < x.dim(); ++axis) {
    const int64_t before = pads[2 * static_cast<size_t>(axis)],
                  after = pads[2 * static_cast<size_t>(axis) + 1];
    if (before == 0 && after == 0) continue;
    call.require(before >= 0 && after >= 0 && x.size(axis) > 0, "a pad is impossible");
    const auto places =
        onnx::internal::places_of(symmetric ? "symmetric" : "reflect", before, after, x.size(axis));
    x = x.index_select(axis, integers_of(places, at::kLong).to(x.device()));
  }
  return {x};
}

Results reverse_axes(NodeRun& call) {
  const Tensor x = call.in(0);
  std::vector<int64_t> axes = call.integers(1);
  for (int64_t& axis : axes) axis = call.normalized(axis, x.dim());
  return {x.flip(axes)};
}

Results keep_band(NodeRun& call) {
  const Tensor x = call.in(0);
  call.require(x.dim() >= 2, "its input is no matrix");
  const int64_t below = call.integer(1), above = call.integer(2);
  Tensor kept = x;
  if (below >= 0) kept = at::triu(kept, -below);
  return {above >= 0 ? at::tril(kept, above) : kept};
}

Results invert_permutation(NodeRun& call) {
  const std::vector<int64_t> order = call.integers(0);
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    call.require(order[i] >= 0 && order[i] < static_cast<int64_t>(order.size()),
                 "its input is no permutation");
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return {integers_of(inverse, call.value(0).tensor.scalar_type())};
}

// Blocks of an image, [batch, height, width, channels], as channels.
Results blocks_to_channels(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t b = call.integer_attribute("block_size", 0);
  call.require(x.dim() == 4 && b > 0 && call.text_attribute("data_format", "NHWC") == "NHWC",
               "its image is no [batch, height, width, channels]");
  const int64_t n = x.size(0), h = x.size(1), w = x.size(2), c = x.size(3);
  if (call.node().operation == "SpaceToDepth") {
    return {x.reshape({n, h / b, b, w / b, b, c})
                .permute({0, 1, 3, 2, 4, 5})
                .reshape({n, h / b, w / b, b * b * c})};
  }
  return {x.reshape({n, h, w, b, b, c / (b * b)})
              .permute({0, 1, 3, 2, 4, 5})
              .reshape({n, h * b, w * b, c / (b * b)})};
}

// Axes after the first, divided into blocks whose places go to the batch, and back.
Results blocks_to_batch(NodeRun& call) {
  Tensor x = call.in(0);
  const std::vector<int64_t> blocks = call.integers(1), edges = call.integers(2);
  const auto axes = static_cast<int64_t>(blocks.size());
  call.require(edges.size() == 2 * blocks.size() && x.dim() > axes, "its lists do not fit");
  call.require(std::ranges::all_of(blocks, [](int64_t each) { return each > 0; }),
               "a block is below 1");
  const bool forward = call.node().operation == "SpaceToBatchND";
  int64_t all = 1;
  for (const int64_t block : blocks) all *= block;
  Shape shape, order, result;
  if (forward) {
    std::vector<int64_t> pads(2 * static_cast<size_t>(x.dim()), 0);
    for (int64_t i = 0; i < axes; ++i) {
      const auto place = 2 * static_cast<size_t>(x.dim() - 2 - i);
      pads[place] = edges[2 * static_cast<size_t>(i)];
      pads[place + 1] = edges[2 * static_cast<size_t>(i) + 1];
    }
    x = at::constant_pad_nd(x, pads);
    shape = {x.size(0)};
    result = {x.size(0) * all};
    for (int64_t i = 0; i < axes; ++i) {
      const int64_t block = blocks[static_cast<size_t>(i)];
      shape.insert(shape.end(), {x.size(i + 1) / block, block});
      order.push_back(2 * i + 2);
      result.push_back(x.size(i + 1) / block);
    }
    order.push_back(0);
    for (int64_t i = 0; i < axes; ++i) order.push_back(2 * i + 1);
  } else {
    call.require(x.size(0) % all == 0, "its batch is no blocks");
    shape = blocks;
    shape.push_back(x.size(0) / all);
    result = {x.size(0) / all};
    order = {axes};
    for (int64_t i = 0; i < axes; ++i) {
      shape.push_back(x.size(i + 1));
      order.insert(order.end(), {axes + 1 + i, i});
      result.push_back(x.size(i + 1) * blocks[static_cast<size_t>(i)]);
    }
  }
  const auto made = static_cast<int64_t>(shape.size());
  for (int64_t i = axes + 1; i < x.dim(); ++i) {
    order.push_back(made + i - axes - 1);
    shape.push_back(x.size(i));
    result.push_back(x.size(i));
  }
  x = x.reshape(shape).permute(order).reshape(result);
  for (int64_t i = 0; !forward && i < axes; ++i) {
    const auto place = 2 * static_cast<size_t>(i);
    const int64_t left = x.size(i + 1) - edges[place] - edges[place + 1];
    call.require(edges[place] >= 0 && left >= 0, "it crops more than there is");
    x = x.slice(i + 1, edges[place], edges[place] + left);
  }
  return {x};
}

}  // namespace

void add_tensorflow_shapes(KernelMap& map) {
  map["BatchToSpaceND"] = {blocks_to_batch, 3};
  map["BroadcastArgs"] = {broadcast_shapes, 2};
  map["Concat"] = {join_tensors, 2};
  map["ConcatV2"] = {join_tensors, 2};
  map["DepthToSpace"] = {blocks_to_channels};
  map["ExpandDims"] = {add_axis, 2};
  map["Fill"] = {fill_with, 2, /*sized=*/true};
  map["InvertPermutation"] = {invert_permutation};
  map["MatrixBandPart"] = {keep_band, 3};
  map["MirrorPad"] = {pad_with_mirror, 2, /*sized=*/true};
  map["Pack"] = {stack_tensors};
  map["Pad"] = {pad_with_number, 2, /*sized=*/true};
  map["PadV2"] = {pad_with_number, 3, /*sized=*/true};
  map["Rank"] = {count_axes};
  map["Reshape"] = {change_shape, 2};
  map["ReverseV2"] = {reverse_axes, 2};
  map["Shape"] = {shape_as_numbers};
  map["ShapeN"] = {shape_as_numbers};
  map["Size"] = {count_elements};
  map["Slice"] = {cut_out, 3};
  map["SpaceToBatchND"] = {blocks_to_batch, 3};
  map["SpaceToDepth"] = {blocks_to_channels};
  map["Split"] = {split_evenly, 2};
  map["SplitV"] = {split_by_sizes, 3};
  map["Squeeze"] = {drop_axes};
  map["StridedSlice"] = {strided_slice, 4};
  map["Transpose"] = {permute_axes, 2};
  map["Unpack"] = {unstack_tensor};
}

}  // namespace muster::inline v0_1::imports

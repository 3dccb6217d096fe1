// Products of matrices, convolutions, normalizations, softmax.
#include <algorithm>
#include <numeric>

#include "muster/savedmodel/internal/dtypes.h"
#include "muster/savedmodel/internal/operations.h"
#include "muster/savedmodel/internal/windows.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

std::string matrix_product(Call& call, const std::string& a, int64_t rank_a, const std::string& b,
                           int64_t rank_b) {
  if (rank_a == 2 && rank_b == 2) return call.add("MatMul", {a, b});
  return call.add("BatchMatMulV2", {a, b});
}

void multiply_matrices(Call& call) {
  const int64_t rank_a = call.rank(0), rank_b = call.rank(1);
  if (rank_a == 1 && rank_b == 1)
    return call.give(call.reduce("Sum", call.add("Mul", {call.in(0), call.in(1)}), {0}, false));
  std::string a = call.in(0), b = call.in(1);
  const auto expanded = [&](const std::string& x, int64_t axis) {
    return call.add("ExpandDims", {x, call.graph().int32(axis)},
                    {{"Tdim", type_value(BundleDtype::kInt32)}});
  };
  if (rank_a == 1) a = expanded(a, 0);
  if (rank_b == 1) b = expanded(b, 1);
  std::string y =
      matrix_product(call, a, std::max<int64_t>(rank_a, 2), b, std::max<int64_t>(rank_b, 2));
  if (rank_a == 1 || rank_b == 1)
    y = call.add("Squeeze", {y}, {{"squeeze_dims", integer_values({rank_a == 1 ? -2 : -1})}});
  call.give(y);
}

// alpha * a * b + beta * c
void add_to_product(Call& call) {
  std::string y = call.add("MatMul", {call.in(0), call.in(1)},
                           {{"transpose_a", flag_value(call.integer("transA", 0) != 0)},
                            {"transpose_b", flag_value(call.integer("transB", 0) != 0)}});
  const auto scaled = [&](const std::string& x, const char* factor) {
    const double value = call.number(factor, 1);
    return value == 1 ? x : call.add("Mul", {x, call.number_like(x, value)});
  };
  y = scaled(y, "alpha");
  if (!call.has(2)) return call.give(y);
  const std::string c = scaled(call.in(2), "beta");
  call.give(call.add(call.rank(2) == 1 && is_float(call.dtype(2)) ? "BiasAdd" : "AddV2", {y, c}));
}

// Adds the numbers of the argument 2, one for each channel of an image with channels last.
std::string with_bias(Call& call, const std::string& image) {
  return call.has(2) ? call.add("BiasAdd", {image, call.in(2)}) : image;
}

// [out, in, sizes...] to [sizes..., in, out]. TensorFlow's convolutions of 1 axis have 2, the first
// of size 1.
std::string kernel_of(Call& call, Windows& windows) {
  const int64_t rank = call.rank(1);
  std::vector<int64_t> order(static_cast<size_t>(rank - 2));
  std::iota(order.begin(), order.end(), 2);
  order.push_back(1);
  order.push_back(0);
  std::string kernel = call.in_order(1, order);
  if (rank == 3)
    kernel = call.add("ExpandDims", {kernel, call.graph().int32(0)},
                      {{"Tdim", type_value(BundleDtype::kInt32)}});
  std::vector<int64_t> shape = windows.kernel;
  shape.push_back(call.shape(1)[1]);
  shape.push_back(call.shape(1)[0]);
  return windows.without_holes(call, kernel, shape);
}

// The parts of a tensor along its last axis.
std::vector<std::string> parts_of(Call& call, const std::string& x, int64_t rank, int64_t count) {
  const BundleDtype dtype = call.graph().dtype(x);
  return call.graph().add_with_outputs(
      "Split", {call.graph().int32(rank - 1), x},
      {{"T", type_value(dtype)}, {"num_split", integer_value(count)}},
      std::vector(static_cast<size_t>(count), dtype));
}

std::string convolved(Call& call, const Windows& windows, const std::string& x,
                      const std::string& kernel) {
  const bool flat = windows.axes() == 2;
  return call.add(flat ? "Conv2D" : "Conv3D", {x, kernel},
                  {{"strides", integer_values(windows.with_batch_and_channels(windows.strides))},
                   {"padding", text_value(windows.padding)}});
}

void convolve(Call& call) {
  Windows windows = Windows::of_convolution(call);
  const int64_t groups = call.integer("group", 1);
  const std::string kernel = kernel_of(call, windows);
  const std::string x = windows.padded(call, windows.image(call), 0);
  const int64_t in_group = call.shape(1)[1], out = call.shape(1)[0];
  std::string y;
  if (groups == 1) {
    y = convolved(call, windows, x, kernel);
  } else if (in_group == 1 && windows.axes() == 2 && windows.make_strides_equal()) {
    std::vector<int64_t> shape = windows.kernel;
    shape.push_back(groups);
    shape.push_back(out / groups);
    y = call.add("DepthwiseConv2dNative", {x, call.reshape_to(kernel, shape)},
                 {{"strides", integer_values(windows.with_batch_and_channels(windows.strides))},
                  {"padding", text_value(windows.padding)}});
  } else {
    const int64_t rank = static_cast<int64_t>(windows.axes()) + 2;
    const auto images = parts_of(call, x, rank, groups),
               kernels = parts_of(call, kernel, rank, groups);
    std::vector<std::string> results;
    for (size_t i = 0; i < images.size(); ++i)
      results.push_back(convolved(call, windows, images[i], kernels[i]));
    y = call.concatenate(results, rank - 1);
  }
  call.give(windows.channels_first(call, with_bias(call, y)));
}

// The image whose convolution would have the size of the input: its whole size, of which the
// padding is taken away.
void convolve_back(Call& call) {
  Windows windows = Windows::of_convolution(call);
  const std::vector<int64_t> pads = windows.pads;
  const int64_t groups = call.integer("group", 1), rank = static_cast<int64_t>(windows.axes()) + 2;
  std::vector<int64_t> more = call.integers("output_padding");
  while (more.size() < windows.axes()) more.insert(more.begin(), 0);
  const std::string kernel = kernel_of(call, windows), x = windows.image(call);
  const int64_t out_group = call.shape(1)[1];
  TensorflowGraph& graph = call.graph();
  // (size - 1) * stride + kernel + output_padding
  const std::vector<int64_t> steps = windows.with_batch_and_channels(windows.strides);
  std::vector<int64_t> constant_part{0};
  for (size_t i = 0; i < windows.axes(); ++i)
    constant_part.push_back(windows.kernel[i] - windows.strides[i] + more[i]);
  std::vector<int64_t> factors = steps;
  factors.back() = 0;
  constant_part.push_back(out_group);
  const std::string sizes =
      call.cast(call.add("AddV2", {call.add("Mul", {call.shape_of(x), graph.int64s(factors)}),
                                   graph.int64s(constant_part)}),
                BundleDtype::kInt32);
  const auto images = groups == 1 ? std::vector{x} : parts_of(call, x, rank, groups);
  const auto kernels = groups == 1 ? std::vector{kernel} : parts_of(call, kernel, rank, groups);
  std::vector<std::string> results;
  for (size_t i = 0; i < images.size(); ++i) {
    Attributes attributes = {{"T", type_value(call.dtype(0))},
                             {"strides", integer_values(steps)},
                             {"padding", text_value("VALID")}};
    if (rank == 5) attributes.emplace_back("Tshape", type_value(BundleDtype::kInt32));
    results.push_back(call.add_as(call.dtype(0),
                                  rank == 4 ? "Conv2DBackpropInput" : "Conv3DBackpropInputV2",
                                  {sizes, kernels[i], images[i]}, attributes));
  }
  std::string y = call.concatenate(results, rank - 1);
  if (std::ranges::any_of(pads, [](int64_t pad) { return pad != 0; })) {
    std::vector<int64_t> begin{0}, less{0};
    for (size_t i = 0; i < windows.axes(); ++i) {
      begin.push_back(pads[i]);
      less.push_back(pads[i] + pads[windows.axes() + i]);
    }
    begin.push_back(0);
    less.push_back(0);
    y = call.add(
        "Slice",
        {y, graph.int32s(begin), call.add("Sub", {shape32_of(call, y), graph.int32s(less)})},
        {{"Index", type_value(BundleDtype::kInt32)}});
  }
  call.give(windows.channels_first(call, with_bias(call, y)));
}

void normalize_batch(Call& call) {
  const std::string x = call.in(0);
  std::vector<int64_t> shape(static_cast<size_t>(call.rank(0) - 1), 1);
  shape[0] = call.shape(0)[1];
  const std::string wide =
      call.add("AddV2", {call.in(4), call.number_like(x, call.number("epsilon", 1e-5))});
  const std::string factor = call.add("Mul", {call.in(1), call.add("Rsqrt", {wide})});
  const std::string apart = call.add("Sub", {x, call.reshape_to(call.in(3), shape)});
  call.give(call.add("AddV2", {call.add("Mul", {apart, call.reshape_to(factor, shape)}),
                               call.reshape_to(call.in(2), shape)}));
}

void normalize_layer(Call& call) {
  const int64_t rank = call.rank(0);
  std::vector<int64_t> axes;
  for (int64_t axis = call.axis(-1, rank); axis < rank; ++axis) axes.push_back(axis);
  const std::string x = call.in(0);
  const std::string apart = call.add("Sub", {x, call.reduce("Mean", x, axes, true)});
  const std::string variance = call.reduce("Mean", call.add("Square", {apart}), axes, true);
  const std::string wide =
      call.add("AddV2", {variance, call.number_like(x, call.number("epsilon", 1e-5))});
  std::string y =
      call.add("Mul", {call.add("Mul", {apart, call.add("Rsqrt", {wide})}), call.in(1)});
  if (call.has(2)) y = call.add("AddV2", {y, call.in(2)});
  call.give(y);
}

// TensorFlow has it along the last axis.
void softmax(Call& call) {
  const int64_t rank = call.rank(0), axis = call.axis(-1, rank);
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  const std::string x = call.transpose(call.in(0), order);
  call.give(call.transpose(call.add(call.node().op_type(), {x}), order));
}

// Images [batch, channels, sizes...]: the nearest number, or between numbers.
void resize(Call& call) {
  const int64_t rank = call.rank(0);
  const std::vector<int64_t> before(call.shape(0).begin() + 2, call.shape(0).end());
  const std::vector<int64_t> after(call.result().shape.begin() + 2, call.result().shape.end());
  const bool nearest = call.text("mode", "nearest") == "nearest";
  if (rank == 4) {
    const std::string sizes =
        std::ranges::all_of(after, [](int64_t size) { return size >= 0; })
            ? call.graph().int32s(after)
            : call.cast(call.gather(call.in(3), call.graph().int32s({2, 3}), 0),
                        BundleDtype::kInt32);
    const bool aligned = call.text("coordinate_transformation_mode", "") == "align_corners";
    const std::string image = call.transpose(call.in(0), {0, 2, 3, 1});
    const BundleDtype dtype = call.dtype(0);
    std::string y =
        call.add_as(nearest ? dtype : BundleDtype::kFloat,
                    nearest ? "ResizeNearestNeighbor" : "ResizeBilinear", {image, sizes},
                    {{"T", type_value(dtype)},
                     {"align_corners", flag_value(aligned)},
                     {"half_pixel_centers", flag_value(!nearest && !aligned)}});
    return call.give(call.transpose(call.cast(y, dtype), {0, 3, 1, 2}));
  }
  const auto is_free = [](int64_t size) { return size < 0; };
  if (!nearest || std::ranges::any_of(before, is_free) || std::ranges::any_of(after, is_free))
    call.refuse("is not of two axes, or has free sizes");
  std::string x = call.in(0);
  for (size_t axis = 0; axis < after.size(); ++axis) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < after[axis]; ++i) places.push_back(i * before[axis] / after[axis]);
    x = call.gather(x, call.graph().int32s(places), static_cast<int64_t>(axis) + 2);
  }
  call.give(x);
}

}  // namespace

void add_networks(OperationMap& map) {
  map["MatMul"] = multiply_matrices;
  map["Gemm"] = add_to_product;
  map["Conv"] = convolve;
  map["ConvTranspose"] = convolve_back;
  map["BatchNormalization"] = normalize_batch;
  map["LayerNormalization"] = normalize_layer;
  map["Softmax"] = softmax;
  map["LogSoftmax"] = softmax;
  map["Resize"] = resize;
}

}  // namespace muster::inline v0_1::saved_model::internal

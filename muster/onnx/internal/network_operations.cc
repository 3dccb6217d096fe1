// Products of matrices, convolutions, pooling, normalizations, softmax.
#include <algorithm>

#include "muster/onnx/internal/operations.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

void multiply_matrices(Call& call) {
  const char* other = call.has("mat2") ? "mat2" : "other";
  call.give(call.add("MatMul", {call.in("self"), call.in(other)}));
}

void add_to_product(Call& call) {
  const double beta = call.number_or("beta", 1), alpha = call.number_or("alpha", 1);
  const char *a = call.operation() == "aten::baddbmm" ? "batch1" : "mat1",
             *b = call.operation() == "aten::baddbmm" ? "batch2" : "mat2";
  if (call.result().dim() == 2) {
    return call.give(call.add("Gemm", {call.in(a), call.in(b), call.in("self")},
                              {{"alpha", alpha}, {"beta", beta}}));
  }
  std::string product = call.add("MatMul", {call.in(a), call.in(b)});
  if (alpha != 1) product = call.add("Mul", {product, call.in("alpha", call.result_dtype())});
  std::string self = call.in("self");
  if (beta != 1) self = call.add("Mul", {self, call.in("beta", call.result_dtype())});
  call.give(call.add("Add", {product, self}));
}

void linear(Call& call) {
  const auto weight = call.constant("weight");
  const std::string kernel =
      weight ? call.writer().constant(weight->t())
             : call.add("Transpose", {call.in("weight")}, {{"perm", std::vector<int64_t>{1, 0}}});
  const std::string product = call.add("MatMul", {call.in("input"), kernel});
  call.give(call.has("bias") ? call.add("Add", {product, call.in("bias")}) : product);
}

// Begin and end of each axis.
std::vector<int64_t> both_sides(const std::vector<int64_t>& padding) {
  std::vector<int64_t> pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

void convolve(Call& call) {
  const int64_t rank = call.rank("input");
  const Tensor weight = call.form("weight");
  const auto axes = static_cast<size_t>(weight.dim() - 2);
  if (rank != weight.dim()) call.refuse("takes an image without a batch axis");
  const bool transposed = call.flag_or("transposed", false) ||
                          call.operation().find("conv_transpose") != std::string::npos;
  Attributes attributes = {{"strides", call.integers("stride", axes)},
                           {"dilations", call.integers("dilation", axes)},
                           {"group", call.integer("groups")},
                           {"kernel_shape", weight.sizes().slice(2).vec()}};
  attributes.emplace_back("pads", both_sides(call.integers("padding", axes)));
  if (transposed) attributes.emplace_back("output_padding", call.integers("output_padding", axes));
  std::vector<std::string> inputs{call.in("input"), call.in("weight")};
  if (call.has("bias")) inputs.push_back(call.in("bias"));
  call.give(call.add(transposed ? "ConvTranspose" : "Conv", inputs, attributes));
}

// The axes that a window moves over: 2 for "aten::max_pool2d".
size_t window_axes(const Call& call) {
  const std::string name = call.operation();
  return static_cast<size_t>(name.at(name.size() - 2) - '0');
}

std::string image_of(Call& call, size_t axes) {
  if (call.rank("self") != static_cast<int64_t>(axes) + 2)
    call.refuse("takes an image without a batch axis");
  return call.in("self");
}

Attributes window(const Call& call, size_t axes) {
  const std::vector<int64_t> kernel = call.integers("kernel_size", axes);
  std::vector<int64_t> stride = kernel;
  if (call.has("stride") && !call.integers("stride").empty())
    stride = call.integers("stride", axes);
  return {{"kernel_shape", kernel},
          {"strides", stride},
          {"pads", both_sides(call.integers("padding", axes))},
          {"ceil_mode", int64_t{call.flag("ceil_mode") ? 1 : 0}}};
}

void pool_largest(Call& call) {
  const size_t axes = window_axes(call);
  const std::string x = image_of(call, axes);
  Attributes attributes = window(call, axes);
  attributes.emplace_back("dilations", call.integers("dilation", axes));
  call.give(call.add("MaxPool", {x}, attributes));
}

void pool_average(Call& call) {
  const size_t axes = window_axes(call);
  const std::string x = image_of(call, axes);
  Attributes attributes = window(call, axes);
  if (!call.has("divisor_override")) {
    attributes.emplace_back("count_include_pad", int64_t{call.flag("count_include_pad") ? 1 : 0});
    return call.give(call.add("AveragePool", {x}, attributes));
  }
  // A window over the edge of the image has fewer numbers.
  if (call.flag("ceil_mode")) call.refuse("has a divisor of its own, and incomplete windows");
  attributes.emplace_back("count_include_pad", int64_t{1});
  double count = 1;
  for (const int64_t size : call.integers("kernel_size", axes)) count *= static_cast<double>(size);
  const double factor = count / static_cast<double>(call.integer("divisor_override"));
  call.give(call.add("Mul", {call.add("AveragePool", {x}, attributes),
                             call.writer().scalar(factor, call.result_dtype())}));
}

void pool_to_one(Call& call) {
  const std::vector<int64_t> size = call.integers("output_size");
  if (std::ranges::any_of(size, [](int64_t each) { return each != 1; }))
    call.refuse("pools to more than one number");
  std::vector<int64_t> axes;
  for (size_t i = 0; i < size.size(); ++i)
    axes.push_back(call.rank("self") - static_cast<int64_t>(size.size() - i));
  call.give(call.add("ReduceMean", {call.in("self")}, {{"axes", axes}, {"keepdims", int64_t{1}}}));
}

// Numbers for each channel; `otherwise` if the operation has none.
std::string channels(Call& call, const char* argument, int64_t count, double otherwise) {
  if (call.has(argument)) return call.in(argument);
  return call.writer().constant(torch::full({count}, otherwise, call.dtype("input")));
}

void normalize_batch(Call& call) {
  if (call.flag("training")) call.refuse("normalizes by the batch");
  const int64_t count = call.form("input").size(1);
  call.give(
      call.add("BatchNormalization",
               {call.in("input"), channels(call, "weight", count, 1),
                channels(call, "bias", count, 0), call.in("running_mean"), call.in("running_var")},
               {{"epsilon", call.number("eps")}}));
}

void normalize_layer(Call& call) {
  const std::vector<int64_t> shape = call.integers("normalized_shape");
  const auto axes = static_cast<int64_t>(shape.size());
  const DType dtype = call.dtype("input");
  std::vector<std::string> inputs{call.in("input")};
  inputs.push_back(call.has("weight") ? call.in("weight")
                                      : call.writer().constant(torch::ones(shape, dtype)));
  if (call.has("bias")) inputs.push_back(call.in("bias"));
  call.give(
      call.add("LayerNormalization", inputs, {{"axis", -axes}, {"epsilon", call.number("eps")}}));
}

// Rows with a mean of 0 and a variance of 1, over the last axis of three.
std::string normalized_rows(Call& call, const std::string& rows) {
  const Attributes last = {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}};
  const std::string apart = call.add("Sub", {rows, call.add("ReduceMean", {rows}, last)});
  const std::string variance = call.add("ReduceMean", {call.add("Mul", {apart, apart})}, last);
  const std::string widened =
      call.add("Add", {variance, call.writer().scalar(call.number("eps"), call.dtype("input"))});
  return call.add("Div", {apart, call.add("Sqrt", {widened})});
}

void normalize_groups(Call& call) {
  const Tensor form = call.form("input");
  const int64_t groups = call.integer("num_groups"), count = form.size(1);
  const std::string x = call.in("input");
  const std::string rows = call.add("Reshape", {x, call.writer().integers({0, groups, -1})});
  std::string y = call.add("Reshape", {normalized_rows(call, rows), call.add("Shape", {x})});
  // [channels, 1, ...]
  std::vector<int64_t> shape(static_cast<size_t>(form.dim() - 1), 1);
  shape[0] = count;
  const std::string form_of_channels = call.writer().integers(shape);
  if (call.has("weight"))
    y = call.add("Mul", {y, call.add("Reshape", {call.in("weight"), form_of_channels})});
  if (call.has("bias"))
    y = call.add("Add", {y, call.add("Reshape", {call.in("bias"), form_of_channels})});
  call.give(y);
}

void softmax(Call& call) {
  call.give(call.add(call.operation() == "aten::softmax" ? "Softmax" : "LogSoftmax",
                     {call.in("self", call.result_dtype())},
                     {{"axis", call.axis("dim", call.rank("self"))}}));
}

// Images [batch, channels, height, width], enlarged by the nearest pixel or between pixels.
void resize_images(Call& call) {
  const bool nearest = call.operation().find("nearest") != std::string::npos;
  const bool aligned = !nearest && call.flag_or("align_corners", false);
  std::vector<int64_t> sizes;
  for (int64_t axis = 2; axis < call.result().dim(); ++axis) {
    if (!call.is_fixed(0, axis)) call.refuse("has a free size of the image");
    sizes.push_back(call.result().size(axis));
  }
  const std::string x = call.in("self");
  const std::string all =
      call.join_sizes({call.add("Shape", {x}, {{"start", int64_t{0}}, {"end", int64_t{2}}}),
                       call.writer().integers(sizes)});
  Attributes attributes = {{"mode", std::string(nearest ? "nearest" : "linear")}};
  attributes.emplace_back("coordinate_transformation_mode",
                          std::string(nearest   ? "asymmetric"
                                      : aligned ? "align_corners"
                                                : "pytorch_half_pixel"));
  if (nearest) attributes.emplace_back("nearest_mode", std::string("floor"));
  call.give(call.add("Resize", {x, "", "", all}, attributes));
}

}  // namespace

void add_networks(OperationMap& map) {
  for (const char* name : {"matmul", "mm", "bmm", "mv"})
    map[std::string("aten::") + name] = multiply_matrices;
  map["aten::addmm"] = add_to_product;
  map["aten::baddbmm"] = add_to_product;
  map["aten::linear"] = linear;
  for (const char* name : {"_convolution", "convolution", "conv1d", "conv2d", "conv3d",
                           "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
    map[std::string("aten::") + name] = convolve;
  for (const char* axes : {"1d", "2d", "3d"}) {
    map[std::string("aten::max_pool") + axes] = pool_largest;
    map[std::string("aten::avg_pool") + axes] = pool_average;
    map[std::string("aten::adaptive_avg_pool") + axes] = pool_to_one;
  }
  map["aten::batch_norm"] = normalize_batch;
  map["aten::layer_norm"] = normalize_layer;
  map["aten::group_norm"] = normalize_groups;
  map["aten::softmax"] = softmax;
  map["aten::log_softmax"] = softmax;
  for (const char* name :
       {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d"})
    map[std::string("aten::") + name] = resize_images;
}

}  // namespace muster::inline v0_1::onnx::internal

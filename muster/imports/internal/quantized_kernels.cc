// Numbers of 8 bits: to them, from them, and products of them.
#include <algorithm>

#include "muster/imports/internal/kernels.h"
#include "muster/imports/internal/tensor_reader.h"
#include "muster/imports/internal/window_form.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

// A scale or a zero point for each number, each place of an axis, or each block along it, so that
// it broadcasts with `x`.
Tensor along(NodeRun& call, const Tensor& x, const Tensor& value, int64_t axis, int64_t block) {
  if (value.numel() == 1 && block == 0) return value.reshape({});
  if (block > 0) {
    call.require(value.dim() == x.dim(), "its scales are not those of blocks");
    return value.repeat_interleave(block, axis).slice(axis, 0, x.size(axis));
  }
  Shape shape(static_cast<size_t>(x.dim()), 1);
  shape[static_cast<size_t>(axis)] = value.numel();
  return value.reshape(shape);
}

Tensor quantized(NodeRun& call, const Tensor& x, const Tensor& scale, const Tensor& zero,
                 DType dtype) {
  int64_t least = 0, most = 255;
  if (dtype == at::kChar) least = -128, most = 127;
  if (dtype == at::kShort) least = -32768, most = 32767;
  if (dtype != at::kByte && dtype != at::kChar && dtype != at::kShort)
    call.refuse("makes another dtype than int8, uint8 and int16");
  Tensor result = at::round(x.div(scale.to(x.scalar_type())));
  if (zero.defined()) result = result.add(zero.to(x.scalar_type()));
  return at::clamp(result, least, most).to(dtype);
}

Tensor dequantized(const Tensor& x, const Tensor& scale, const Tensor& zero) {
  Tensor numbers = x.to(at::kFloat);
  if (zero.defined()) numbers = numbers.sub(zero.to(at::kFloat));
  return numbers.mul(scale.to(at::kFloat));
}

int64_t axis_of(NodeRun& call, const Tensor& x, const Tensor& scale) {
  return scale.numel() == 1 ? 0 : call.axis("axis", 1, x.dim());
}

Results quantize(NodeRun& call) {
  const Tensor x = call.in(0), scale = call.in(1), zero = call.in_or(2, Tensor());
  const int64_t axis = axis_of(call, x, scale), block = call.integer_attribute("block_size", 0);
  DType dtype = zero.defined() ? zero.scalar_type() : at::kByte;
  if (call.integer_attribute("output_dtype", 0) != 0)
    dtype = dtype_of_element(static_cast<int>(call.attribute("output_dtype").integer),
                             call.node().label);
  const Tensor zeros = zero.defined() ? along(call, x, zero, axis, block) : zero;
  return {quantized(call, x, along(call, x, scale, axis, block), zeros, dtype)};
}

Results dequantize(NodeRun& call) {
  const Tensor x = call.in(0), scale = call.in(1), zero = call.in_or(2, Tensor());
  const int64_t axis = axis_of(call, x, scale), block = call.integer_attribute("block_size", 0);
  const Tensor zeros = zero.defined() ? along(call, x, zero, axis, block) : zero;
  return {dequantized(x, along(call, x, scale, axis, block), zeros).to(scale.scalar_type())};
}

// To uint8, by the numbers of the tensor.
Results quantize_dynamically(NodeRun& call) {
  const Tensor x = call.in(0);
  const Tensor least = at::clamp_max(x.min(), 0), most = at::clamp_min(x.max(), 0);
  const Tensor scale = most.sub(least).div(255);
  const Tensor safe = at::where(scale.eq(0), at::ones_like(scale), scale);
  const Tensor zero = at::clamp(at::round(least.neg().div(safe)), 0, 255).to(at::kByte);
  return {quantized(call, x, safe, zero, at::kByte), scale, zero};
}

// Products of float64 are exact for these integers, and much faster than LibTorch's of integers.
Tensor centered(const Tensor& x, const Tensor& zero, int64_t axis) {
  Tensor numbers = x.to(at::kDouble);
  if (!zero.defined()) return numbers;
  if (zero.numel() == 1) return numbers.sub(zero.to(at::kDouble).reshape({}));
  Shape shape(static_cast<size_t>(x.dim()), 1);
  shape[static_cast<size_t>(axis < 0 ? axis + x.dim() : axis)] = zero.numel();
  return numbers.sub(zero.to(at::kDouble).reshape(shape));
}

Results multiply_integers(NodeRun& call) {
  const Tensor a = call.in(0), b = call.in(1);
  const Tensor left = centered(a, call.in_or(2, Tensor()), -2);
  const Tensor right = centered(b, call.in_or(3, Tensor()), -1);
  return {at::matmul(left, right).to(at::kInt)};
}

Tensor convolve_numbers(NodeRun& call, Tensor x, const Tensor& weight, const Tensor& bias) {
  call.require(weight.dim() >= 3, "its weight has no window");
  const WindowForm form(call, x,
                        call.integers_attribute("kernel_shape", weight.sizes().slice(2).vec()));
  x = at::constant_pad_nd(x, form.pads());
  const std::vector<int64_t> none(form.axes(), 0);
  return at::convolution(x, weight, bias.defined() ? c10::optional<Tensor>(bias) : c10::nullopt,
                         form.strides, none, form.dilations, /*transposed=*/false, none,
                         call.integer_attribute("group", 1));
}

Results convolve_integers(NodeRun& call) {
  const Tensor x = centered(call.in(0), call.in_or(2, Tensor()), 0);
  const Tensor weight = centered(call.in(1), call.in_or(3, Tensor()), 0);
  return {convolve_numbers(call, x, weight, Tensor()).to(at::kInt)};
}

// Scales and zero points of rows, or of channels.
Results multiply_quantized(NodeRun& call) {
  const auto numbers = [&](size_t first, int64_t axis) {
    const Tensor x = call.in(first), scale = call.in(first + 1);
    const int64_t place = scale.numel() == 1 ? 0 : call.normalized(axis, x.dim());
    return dequantized(x, along(call, x, scale, place, 0),
                       along(call, x, call.in(first + 2), place, 0));
  };
  const Tensor y = at::matmul(numbers(0, -2), numbers(3, -1)), zero = call.in(7);
  return {quantized(call, y, call.in(6), zero, zero.scalar_type())};
}

Results convolve_quantized(NodeRun& call) {
  const Tensor x = dequantized(call.in(0), call.in(1), call.in(2));
  const Tensor w = call.in(3), scale = call.in(4);
  const Tensor weight =
      dequantized(w, along(call, w, scale, 0, 0), along(call, w, call.in(5), 0, 0));
  Tensor bias = call.in_or(8, Tensor());
  if (bias.defined()) bias = bias.to(at::kFloat).mul(call.in(1)).mul(scale);
  const Tensor zero = call.in(7);
  return {quantized(call, convolve_numbers(call, x, weight, bias), call.in(6), zero,
                    zero.scalar_type())};
}

}  // namespace

void add_quantized_kernels(KernelMap& map) {
  map["ConvInteger"] = {convolve_integers, 2};
  map["DequantizeLinear"] = {dequantize, 2};
  map["DynamicQuantizeLinear"] = {quantize_dynamically};
  map["MatMulInteger"] = {multiply_integers, 2};
  map["QLinearConv"] = {convolve_quantized, 8};
  map["QLinearMatMul"] = {multiply_quantized, 8};
  map["QuantizeLinear"] = {quantize, 2};
}

}  // namespace muster::inline v0_1::onnx::internal

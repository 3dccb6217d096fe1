// Operations on each number, comparisons and conversions.
#include "muster/imports/internal/tensorflow_kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {
namespace {

template <Tensor (*kOperation)(const Tensor&)>
Results of_one(NodeRun& call) {
  return {kOperation(call.in(0))};
}

template <Tensor (*kOperation)(const Tensor&, const Tensor&)>
Results of_two(NodeRun& call) {
  return {kOperation(call.in(0), call.in(1))};
}

Tensor inverse_root(const Tensor& x) { return at::rsqrt(x); }
Tensor square_of(const Tensor& x) { return x.mul(x); }
Tensor relu_6(const Tensor& x) { return at::clamp(x, 0, 6); }
Tensor ones_as(const Tensor& x) { return at::ones_like(x); }
Tensor zeros_as(const Tensor& x) { return at::zeros_like(x); }

Tensor divide_down(const Tensor& a, const Tensor& b) { return at::div(a, b, "floor"); }
Tensor divide_or_zero(const Tensor& a, const Tensor& b) {
  return at::where(b.eq(0), at::zeros_like(b), a.div(b));
}
Tensor zero_over_any(const Tensor& a, const Tensor& b) {
  return at::where(a.eq(0), at::zeros_like(a), a.div(b));
}
Tensor multiply_or_zero(const Tensor& a, const Tensor& b) {
  return at::where(b.eq(0), at::zeros_like(b), a.mul(b));
}
Tensor squared_difference(const Tensor& a, const Tensor& b) { return square_of(a.sub(b)); }
Tensor times_log(const Tensor& a, const Tensor& b) { return at::xlogy(a, b); }
Tensor times_log_1(const Tensor& a, const Tensor& b) { return at::xlogy(a, b.add(1)); }
Tensor modulo_down(const Tensor& a, const Tensor& b) { return at::remainder(a, b); }
Tensor modulo_to_zero(const Tensor& a, const Tensor& b) { return at::fmod(a, b); }

// TensorFlow's Div truncates integers.
Tensor divide_to_zero(const Tensor& a, const Tensor& b) {
  return at::isFloatingType(a.scalar_type()) ? a.div(b) : at::div(a, b, "trunc");
}

Results compare_equal(NodeRun& call) {
  const Tensor equal = call.in(0).eq(call.in(1));
  return {call.node().operation == "Equal" ? equal : equal.logical_not()};
}

Results convert(NodeRun& call) {
  const Tensor x = call.in(0);
  return {x.to(dtype_attribute(call, "DstT", x.scalar_type()))};
}

Results leak(NodeRun& call) {
  return {at::leaky_relu(call.in(0), call.number_attribute("alpha", 0.2))};
}

// The bias is one number for each channel.
Results add_bias(NodeRun& call) {
  const Tensor x = call.in(0), bias = call.in(1);
  call.require(bias.dim() == 1, "its bias is no vector");
  if (call.text_attribute("data_format", "NHWC") != "NCHW" || x.dim() < 3) return {x.add(bias)};
  Shape shape(static_cast<size_t>(x.dim() - 1), 1);
  shape[0] = bias.size(0);
  return {x.add(bias.reshape(shape))};
}

// Of version 1: a condition of one axis chooses rows.
Results choose_rows(NodeRun& call) {
  Tensor condition = call.in(0);
  const Tensor x = call.in(1);
  if (condition.dim() == 1 && x.dim() > 1) {
    Shape shape(static_cast<size_t>(x.dim()), 1);
    shape[0] = condition.size(0);
    condition = condition.reshape(shape);
  }
  return {at::where(condition, x, call.in(2))};
}

}  // namespace

void add_tensorflow_elementwise(KernelMap& map) {
  map["BiasAdd"] = {add_bias, 2};
  map["Cast"] = {convert};
  map["Digamma"] = {of_one<at::digamma>};
  map["Div"] = {of_two<divide_to_zero>, 2};
  map["DivNoNan"] = {of_two<divide_or_zero>, 2};
  map["Equal"] = {compare_equal, 2};
  map["Erfc"] = {of_one<at::erfc>};
  map["Erfinv"] = {of_one<at::erfinv>};
  map["Expm1"] = {of_one<at::expm1>};
  map["FloorDiv"] = {of_two<divide_down>, 2};
  map["FloorMod"] = {of_two<modulo_down>, 2};
  map["IsFinite"] = {of_one<at::isfinite>};
  map["IsInf"] = {of_one<at::isinf>};
  map["LeakyRelu"] = {leak};
  map["Lgamma"] = {of_one<at::lgamma>};
  map["Log1p"] = {of_one<at::log1p>};
  map["Mod"] = {of_two<modulo_to_zero>, 2};
  map["MulNoNan"] = {of_two<multiply_or_zero>, 2};
  map["NotEqual"] = {compare_equal, 2};
  map["OnesLike"] = {of_one<ones_as>};
  map["Relu6"] = {of_one<relu_6>};
  map["Rsqrt"] = {of_one<inverse_root>};
  map["Select"] = {choose_rows, 3};
  map["Square"] = {of_one<square_of>};
  map["SquaredDifference"] = {of_two<squared_difference>, 2};
  map["TruncateMod"] = {of_two<modulo_to_zero>, 2};
  map["Xdivy"] = {of_two<zero_over_any>, 2};
  map["Xlog1py"] = {of_two<times_log_1>, 2};
  map["Xlogy"] = {of_two<times_log>, 2};
  map["ZerosLike"] = {of_one<zeros_as>};
}

}  // namespace muster::inline v0_1::imports

// Operations on each number, comparisons and conversions.
#include "muster/imports/internal/kernels.h"
#include "muster/imports/internal/tensor_reader.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

template <Tensor (*kOperation)(const Tensor&)>
Results unary(NodeRun& call) {
  return {kOperation(call.in(0))};
}

template <Tensor (*kOperation)(const Tensor&, const Tensor&)>
Results binary(NodeRun& call) {
  return {kOperation(call.in(0), call.in(1))};
}

// Of one tensor or more.
template <Tensor (*kOperation)(const Tensor&, const Tensor&)>
Results folded(NodeRun& call) {
  Tensor result = call.in(0);
  for (size_t i = 1; i < call.inputs(); ++i) result = kOperation(result, call.in(i));
  return {result};
}

Tensor add(const Tensor& a, const Tensor& b) { return at::add(a, b); }
Tensor subtract(const Tensor& a, const Tensor& b) { return at::sub(a, b); }

Tensor divide(const Tensor& a, const Tensor& b) {
  return at::isFloatingType(a.scalar_type()) ? at::div(a, b) : at::div(a, b, "trunc");
}

// ONNX's result has the dtype of the base.
Tensor raise(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() == b.scalar_type()) return at::pow(a, b);
  if (at::isFloatingType(a.scalar_type())) return at::pow(a, b.to(a.scalar_type()));
  return at::pow(a.to(at::kDouble), b.to(at::kDouble)).to(a.scalar_type());
}

Results modulo(NodeRun& call) {
  const Tensor a = call.in(0), b = call.in(1);
  return {call.integer_attribute("fmod", 0) != 0 ? at::fmod(a, b) : at::remainder(a, b)};
}

Results mean(NodeRun& call) {
  return {at::div(folded<add>(call)[0], static_cast<double>(call.inputs()))};
}

Results shift(NodeRun& call) {
  const Tensor a = call.in(0), b = call.in(1);
  const bool left = call.text_attribute("direction", "LEFT") == "LEFT";
  // More than all bits, which C++ leaves open: none is left but the sign's.
  const auto bits = static_cast<int64_t>(8 * a.element_size());
  const Tensor outside = b.lt(0).logical_or(b.ge(bits));
  const Tensor shifts = b.masked_fill(outside, 0);
  if (left) return {at::bitwise_left_shift(a, shifts).masked_fill(outside, 0)};
  const Tensor sign = at::where(a.lt(0), at::full_like(a, -1), at::zeros_like(a));
  return {at::where(outside, sign, at::bitwise_right_shift(a, shifts))};
}

Results is_infinite(NodeRun& call) {
  const Tensor x = call.in(0);
  const bool negative = call.integer_attribute("detect_negative", 1) != 0,
             positive = call.integer_attribute("detect_positive", 1) != 0;
  const Tensor infinite = at::isinf(x);
  if (negative && positive) return {infinite};
  return {infinite.logical_and(negative ? x.lt(0) : positive ? x.gt(0) : at::zeros_like(infinite))};
}

Results clip(NodeRun& call) {
  Tensor x = call.in(0);
  if (call.has(1)) x = at::maximum(x, call.in(1));
  if (call.has(2)) x = at::minimum(x, call.in(2));
  return {x};
}

Results leaky_relu(NodeRun& call) {
  return {at::leaky_relu(call.in(0), call.number_attribute("alpha", 0.01))};
}

Results elu(NodeRun& call) { return {at::elu(call.in(0), call.number_attribute("alpha", 1))}; }

Results celu(NodeRun& call) { return {at::celu(call.in(0), call.number_attribute("alpha", 1))}; }

Results selu(NodeRun& call) {
  // The defaults are the constants of float32.
  const double alpha = call.number_attribute("alpha", 1.67326319217681884765625),
               gamma = call.number_attribute("gamma", 1.05070102214813232421875);
  return {at::elu(call.in(0), alpha, gamma)};
}

Results thresholded_relu(NodeRun& call) {
  return {at::threshold(call.in(0), call.number_attribute("alpha", 1), 0)};
}

Results hard_sigmoid(NodeRun& call) {
  const double alpha = call.number_attribute("alpha", 0.2),
               beta = call.number_attribute("beta", 0.5);
  return {at::clamp(call.in(0).mul(alpha).add(beta), 0, 1)};
}

Tensor softsign(const Tensor& x) { return x.div(x.abs().add(1)); }
Tensor softplus(const Tensor& x) { return at::softplus(x); }
Tensor mish(const Tensor& x) { return x.mul(at::tanh(at::softplus(x))); }
Tensor relu(const Tensor& x) { return at::relu(x); }
Tensor round_to_even(const Tensor& x) { return at::round(x); }
Tensor identity(const Tensor& x) { return x; }
Tensor logical_not(const Tensor& x) { return at::logical_not(x); }

Results gelu(NodeRun& call) {
  return {at::gelu(call.in(0), call.text_attribute("approximate", "none"))};
}

Results swish(NodeRun& call) {
  const Tensor x = call.in(0);
  const double alpha = call.number_attribute("alpha", 1);
  return {x.mul(at::sigmoid(alpha == 1 ? x : x.mul(alpha)))};
}

Results shrink(NodeRun& call) {
  const Tensor x = call.in(0);
  const double bias = call.number_attribute("bias", 0),
               lambda = call.number_attribute("lambd", 0.5);
  const Tensor zero = at::zeros_like(x);
  return {at::where(x.lt(-lambda), x.add(bias), at::where(x.gt(lambda), x.sub(bias), zero))
              .to(x.scalar_type())};
}

Results prelu(NodeRun& call) {
  const Tensor x = call.in(0);
  return {at::where(x.lt(0), x.mul(call.in(1)), x)};
}

Results where(NodeRun& call) { return {at::where(call.in(0), call.in(1), call.in(2))}; }

Results cast(NodeRun& call) {
  return {call.in(0).to(
      dtype_of_element(static_cast<int>(call.attribute("to").integer), call.node().label))};
}

Results cast_like(NodeRun& call) { return {call.in(0).to(call.value(1).tensor.scalar_type())}; }

// A model is run for its predictions.
Results dropout(NodeRun& call) {
  const Tensor x = call.in(0);
  if (call.has(2) && call.number(2) != 0) call.refuse("drops numbers: it is in training mode");
  return {x, call.wants(1) ? at::ones(x.sizes(), x.options().dtype(at::kBool)) : Tensor()};
}

Results softmax_like(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t axis = call.axis("axis", -1, x.dim());
  const std::string& operation = call.node().operation;
  if (operation == "Softmax") return {at::softmax(x, axis)};
  if (operation == "LogSoftmax") return {at::log_softmax(x, axis)};
  const Tensor first = at::argmax(x, axis, /*keepdim=*/true);
  return {at::zeros_like(x).scatter(axis, first, 1)};
}

}  // namespace

void add_elementwise_kernels(KernelMap& map) {
  map["Abs"] = {unary<at::abs>};
  map["Acos"] = {unary<at::acos>};
  map["Acosh"] = {unary<at::acosh>};
  map["Asin"] = {unary<at::asin>};
  map["Asinh"] = {unary<at::asinh>};
  map["Atan"] = {unary<at::atan>};
  map["Atanh"] = {unary<at::atanh>};
  map["BitwiseNot"] = {unary<at::bitwise_not>};
  map["Ceil"] = {unary<at::ceil>};
  map["Cos"] = {unary<at::cos>};
  map["Cosh"] = {unary<at::cosh>};
  map["Erf"] = {unary<at::erf>};
  map["Exp"] = {unary<at::exp>};
  map["Floor"] = {unary<at::floor>};
  map["HardSwish"] = {unary<at::hardswish>};
  map["Identity"] = {unary<identity>};
  map["IsNaN"] = {unary<at::isnan>};
  map["Log"] = {unary<at::log>};
  map["Mish"] = {unary<mish>};
  map["Neg"] = {unary<at::neg>};
  map["Not"] = {unary<logical_not>};
  map["Reciprocal"] = {unary<at::reciprocal>};
  map["Relu"] = {unary<relu>};
  map["Round"] = {unary<round_to_even>};
  map["Sigmoid"] = {unary<at::sigmoid>};
  map["Sign"] = {unary<at::sign>};
  map["Sin"] = {unary<at::sin>};
  map["Sinh"] = {unary<at::sinh>};
  map["Softplus"] = {unary<softplus>};
  map["Softsign"] = {unary<softsign>};
  map["Sqrt"] = {unary<at::sqrt>};
  map["Tan"] = {unary<at::tan>};
  map["Tanh"] = {unary<at::tanh>};

  map["Add"] = {binary<add>, 2};
  map["And"] = {binary<at::logical_and>, 2};
  map["BitwiseAnd"] = {binary<at::bitwise_and>, 2};
  map["BitwiseOr"] = {binary<at::bitwise_or>, 2};
  map["BitwiseXor"] = {binary<at::bitwise_xor>, 2};
  map["Div"] = {binary<divide>, 2};
  map["Equal"] = {binary<at::eq>, 2};
  map["Greater"] = {binary<at::gt>, 2};
  map["GreaterOrEqual"] = {binary<at::ge>, 2};
  map["Less"] = {binary<at::lt>, 2};
  map["LessOrEqual"] = {binary<at::le>, 2};
  map["Mul"] = {binary<at::mul>, 2};
  map["Or"] = {binary<at::logical_or>, 2};
  map["Pow"] = {binary<raise>, 2};
  map["Sub"] = {binary<subtract>, 2};
  map["Xor"] = {binary<at::logical_xor>, 2};
  map["Max"] = {folded<at::maximum>};
  map["Mean"] = {mean};
  map["Min"] = {folded<at::minimum>};
  map["Sum"] = {folded<add>};

  map["BitShift"] = {shift, 2};
  map["Cast"] = {cast};
  map["CastLike"] = {cast_like, 2};
  map["Celu"] = {celu};
  map["Clip"] = {clip};
  map["Dropout"] = {dropout};
  map["Elu"] = {elu};
  map["Gelu"] = {gelu};
  map["HardSigmoid"] = {hard_sigmoid};
  map["Hardmax"] = {softmax_like};
  map["IsInf"] = {is_infinite};
  map["LeakyRelu"] = {leaky_relu};
  map["LogSoftmax"] = {softmax_like};
  map["Mod"] = {modulo, 2};
  map["PRelu"] = {prelu, 2};
  map["Selu"] = {selu};
  map["Shrink"] = {shrink};
  map["Softmax"] = {softmax_like};
  map["Swish"] = {swish};
  map["ThresholdedRelu"] = {thresholded_relu};
  map["Where"] = {where, 3};
}

}  // namespace muster::inline v0_1::onnx::internal

// Operations on each number of a tensor.
#include <cmath>
#include <limits>

#include "muster/onnx/internal/operations.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

// An operation of the same name and one argument.
void unary(Call& call) {
  static const std::map<std::string, std::string> kNames = {
      {"aten::abs", "Abs"},        {"aten::neg", "Neg"},     {"aten::exp", "Exp"},
      {"aten::log", "Log"},        {"aten::sqrt", "Sqrt"},   {"aten::tanh", "Tanh"},
      {"aten::relu", "Relu"},      {"aten::sin", "Sin"},     {"aten::cos", "Cos"},
      {"aten::tan", "Tan"},        {"aten::asin", "Asin"},   {"aten::acos", "Acos"},
      {"aten::atan", "Atan"},      {"aten::sinh", "Sinh"},   {"aten::cosh", "Cosh"},
      {"aten::erf", "Erf"},        {"aten::sign", "Sign"},   {"aten::floor", "Floor"},
      {"aten::ceil", "Ceil"},      {"aten::round", "Round"}, {"aten::reciprocal", "Reciprocal"},
      {"aten::sigmoid", "Sigmoid"}};
  call.give(call.add(kNames.at(call.operation()), {call.in("self", call.result_dtype())}));
}

std::string self_of(Call& call) { return call.in("self", call.result_dtype()); }
std::string number_of(Call& call, double value) {
  return call.writer().scalar(value, call.result_dtype());
}

// `other` times alpha, as add() and sub() have it.
std::string scaled(Call& call, const char* argument) {
  const std::string other = call.in(argument, call.result_dtype());
  const double alpha = call.number_or("alpha", 1);
  return alpha == 1 ? other : call.add("Mul", {other, number_of(call, alpha)});
}

void add(Call& call) { call.give(call.add("Add", {self_of(call), scaled(call, "other")})); }
void subtract(Call& call) { call.give(call.add("Sub", {self_of(call), scaled(call, "other")})); }
void subtract_from(Call& call) {
  call.give(call.add("Sub", {call.in("other", call.result_dtype()), scaled(call, "self")}));
}
void multiply(Call& call) {
  call.give(call.add("Mul", {self_of(call), call.in("other", call.result_dtype())}));
}

// Rounded down, as Python's //: ONNX's Div of integers drops the fraction.
std::string floor_of_quotient(Call& call, const std::string& a, const std::string& b) {
  if (at::isFloatingType(call.result_dtype())) return call.add("Floor", {call.add("Div", {a, b})});
  const std::string rest = call.add("Mod", {a, b});
  return call.add("Div", {call.add("Sub", {a, rest}), b});
}

void divide(Call& call) {
  const std::string a = self_of(call), b = call.in("other", call.result_dtype());
  const std::string mode = call.has("rounding_mode") ? call.text("rounding_mode") : "";
  if (mode == "floor") return call.give(floor_of_quotient(call, a, b));
  const std::string quotient = call.add("Div", {a, b});
  if (mode.empty() || !at::isFloatingType(call.result_dtype())) return call.give(quotient);
  call.give(call.add(
      "Mul", {call.add("Sign", {quotient}), call.add("Floor", {call.add("Abs", {quotient})})}));
}

void floor_divide(Call& call) {
  call.give(floor_of_quotient(call, self_of(call), call.in("other", call.result_dtype())));
}

void remainder(Call& call) {
  const std::string a = self_of(call), b = call.in("other", call.result_dtype());
  if (!at::isFloatingType(call.result_dtype())) return call.give(call.add("Mod", {a, b}));
  call.give(call.add("Sub", {a, call.add("Mul", {b, floor_of_quotient(call, a, b)})}));
}

void power(Call& call) {
  call.give(call.add("Pow", {self_of(call), call.in("exponent", call.result_dtype())}));
}

void square(Call& call) {
  const std::string x = self_of(call);
  call.give(call.add("Mul", {x, x}));
}

void reciprocal_root(Call& call) {
  call.give(call.add("Reciprocal", {call.add("Sqrt", {self_of(call)})}));
}

void log_of_one_plus(Call& call) {
  call.give(call.add("Log", {call.add("Add", {self_of(call), number_of(call, 1)})}));
}
void exp_minus_one(Call& call) {
  call.give(call.add("Sub", {call.add("Exp", {self_of(call)}), number_of(call, 1)}));
}

// Like Max and Min, but as LibTorch has it: ONNX's Clip takes scalars alone.
void clamp(Call& call) {
  std::string x = self_of(call);
  if (call.has("min")) x = call.add("Max", {x, call.in("min", call.result_dtype())});
  if (call.has("max")) x = call.add("Min", {x, call.in("max", call.result_dtype())});
  if (call.has("min_val")) x = call.add("Max", {x, call.in("min_val", call.result_dtype())});
  if (call.has("max_val")) x = call.add("Min", {x, call.in("max_val", call.result_dtype())});
  call.give(x);
}

void maximum(Call& call) {
  call.give(call.add("Max", {self_of(call), call.in("other", call.result_dtype())}));
}
void minimum(Call& call) {
  call.give(call.add("Min", {self_of(call), call.in("other", call.result_dtype())}));
}

void elu(Call& call) {
  const double scale = call.number_or("scale", 1), input = call.number_or("input_scale", 1);
  if (input != 1) call.refuse("has an input_scale");
  const std::string x = self_of(call);
  std::string y;
  if (call.result_dtype() == at::kFloat) {
    y = call.add("Elu", {x}, {{"alpha", call.number("alpha")}});
  } else {
    // onnxruntime has Elu for float32 alone.
    const std::string zero = number_of(call, 0);
    const std::string low =
        call.add("Sub", {call.add("Exp", {call.add("Min", {x, zero})}), number_of(call, 1)});
    y = call.add("Where", {call.add("Greater", {x, zero}), x,
                           call.add("Mul", {low, number_of(call, call.number("alpha"))})});
  }
  call.give(scale == 1 ? y : call.add("Mul", {y, number_of(call, scale)}));
}

void selu(Call& call) {
  call.give(call.add("Selu", {self_of(call)},
                     {{"alpha", 1.6732632423543772}, {"gamma", 1.0507009873554805}}));
}

void leaky_relu(Call& call) {
  call.give(
      call.add("LeakyRelu", {self_of(call)}, {{"alpha", call.number_or("negative_slope", 0.01)}}));
}

void prelu(Call& call) {
  call.give(call.add("PRelu", {self_of(call), call.in("weight", call.result_dtype())}));
}

// log(1 + e^x) as max(x, 0) + log(1 + e^-|x|), which does not overflow.
std::string softplus_of(Call& call, const std::string& x) {
  const std::string small = call.add("Exp", {call.add("Neg", {call.add("Abs", {x})})});
  return call.add("Add", {call.add("Relu", {x}),
                          call.add("Log", {call.add("Add", {small, number_of(call, 1)})})});
}

void softplus(Call& call) {
  const double beta = call.number_or("beta", 1);
  std::string x = self_of(call);
  if (beta != 1) x = call.add("Mul", {x, number_of(call, beta)});
  const std::string y = softplus_of(call, x);
  call.give(beta == 1 ? y : call.add("Div", {y, number_of(call, beta)}));
}

void log_sigmoid(Call& call) {
  call.give(call.add("Neg", {softplus_of(call, call.add("Neg", {self_of(call)}))}));
}

void silu(Call& call) {
  const std::string x = self_of(call);
  call.give(call.add("Mul", {x, call.add("Sigmoid", {x})}));
}

void mish(Call& call) {
  const std::string x = self_of(call);
  call.give(call.add("Mul", {x, call.add("Tanh", {softplus_of(call, x)})}));
}

void gelu(Call& call) {
  const std::string x = self_of(call), half = call.add("Mul", {x, number_of(call, 0.5)});
  std::string inner;
  if (call.has("approximate") && call.text("approximate") == "tanh") {
    const std::string cube = call.add("Mul", {call.add("Mul", {x, x}), x});
    const std::string sum =
        call.add("Add", {x, call.add("Mul", {cube, number_of(call, 0.044715)})});
    inner = call.add("Tanh", {call.add("Mul", {sum, number_of(call, std::sqrt(2 / M_PI))})});
  } else {
    inner = call.add("Erf", {call.add("Mul", {x, number_of(call, std::sqrt(0.5))})});
  }
  call.give(call.add("Mul", {half, call.add("Add", {inner, number_of(call, 1)})}));
}

std::string clipped(Call& call, const std::string& x, double least, double most) {
  return call.add("Min", {call.add("Max", {x, number_of(call, least)}), number_of(call, most)});
}

void hard_sigmoid(Call& call) {
  const std::string sum = call.add("Add", {self_of(call), number_of(call, 3)});
  call.give(call.add("Div", {clipped(call, sum, 0, 6), number_of(call, 6)}));
}

void hard_swish(Call& call) {
  const std::string x = self_of(call);
  const std::string sum = call.add("Add", {x, number_of(call, 3)});
  call.give(call.add("Div", {call.add("Mul", {x, clipped(call, sum, 0, 6)}), number_of(call, 6)}));
}

void threshold(Call& call) {
  const std::string x = self_of(call);
  const std::string above = call.add("Greater", {x, call.in("threshold", call.result_dtype())});
  call.give(call.add("Where", {above, x, call.in("value", call.result_dtype())}));
}

void add_products(Call& call) {
  const DType dtype = call.result_dtype();
  std::string product = call.add("Mul", {call.in("tensor1", dtype), call.in("tensor2", dtype)});
  if (call.number_or("value", 1) != 1)
    product = call.add("Mul", {product, call.in("value", dtype)});
  call.give(call.add("Add", {self_of(call), product}));
}

void interpolate_linearly(Call& call) {
  const DType dtype = call.result_dtype();
  const std::string x = self_of(call);
  const std::string way = call.add("Sub", {call.in("end", dtype), x});
  call.give(call.add("Add", {x, call.add("Mul", {call.in("weight", dtype), way})}));
}

void cast(Call& call) { call.give(self_of(call)); }

// Of dropout and its like: they do nothing when they do not train.
void nothing_in_prediction(Call& call) {
  if (call.flag("train")) call.refuse("drops values in training");
  call.give(call.in("input"));
}

}  // namespace

void add_elementwise(OperationMap& map) {
  for (const char* name : {"abs",  "neg",   "exp",  "log",   "sqrt",       "tanh",   "relu", "sin",
                           "cos",  "tan",   "asin", "acos",  "atan",       "sinh",   "cosh", "erf",
                           "sign", "floor", "ceil", "round", "reciprocal", "sigmoid"})
    map[std::string("aten::") + name] = unary;
  map["aten::add"] = add;
  map["aten::sub"] = subtract;
  map["aten::rsub"] = subtract_from;
  map["aten::mul"] = multiply;
  map["aten::div"] = divide;
  map["aten::true_divide"] = divide;
  map["aten::floor_divide"] = floor_divide;
  map["aten::remainder"] = remainder;
  map["aten::pow"] = power;
  map["aten::square"] = square;
  map["aten::rsqrt"] = reciprocal_root;
  map["aten::log1p"] = log_of_one_plus;
  map["aten::expm1"] = exp_minus_one;
  map["aten::clamp"] = clamp;
  map["aten::clamp_min"] = clamp;
  map["aten::clamp_max"] = clamp;
  map["aten::hardtanh"] = clamp;
  map["aten::relu6"] = [](Call& call) { call.give(clipped(call, self_of(call), 0, 6)); };
  map["aten::maximum"] = maximum;
  map["aten::minimum"] = minimum;
  map["aten::elu"] = elu;
  map["aten::selu"] = selu;
  map["aten::leaky_relu"] = leaky_relu;
  map["aten::prelu"] = prelu;
  map["aten::softplus"] = softplus;
  map["aten::log_sigmoid"] = log_sigmoid;
  map["aten::silu"] = silu;
  map["aten::mish"] = mish;
  map["aten::gelu"] = gelu;
  map["aten::hardsigmoid"] = hard_sigmoid;
  map["aten::hardswish"] = hard_swish;
  map["aten::threshold"] = threshold;
  map["aten::addcmul"] = add_products;
  map["aten::lerp"] = interpolate_linearly;
  for (const char* name : {"to", "type_as", "contiguous", "clone", "detach", "alias", "_to_copy"})
    map[std::string("aten::") + name] = cast;
  for (const char* name : {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"})
    map[std::string("aten::") + name] = nothing_in_prediction;
}

}  // namespace muster::inline v0_1::onnx::internal

// Operations on each number of a tensor, comparisons, and choices by them.
#include "muster/savedmodel/internal/dtypes.h"
#include "muster/savedmodel/internal/operations.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

// ONNX's and TensorFlow's names of operations that are the same.
const std::map<std::string, std::string>& same_operations() {
  static const std::map<std::string, std::string> names = {
      {"Abs", "Abs"},         {"Neg", "Neg"},     {"Exp", "Exp"},
      {"Log", "Log"},         {"Sqrt", "Sqrt"},   {"Tanh", "Tanh"},
      {"Relu", "Relu"},       {"Sin", "Sin"},     {"Cos", "Cos"},
      {"Tan", "Tan"},         {"Asin", "Asin"},   {"Acos", "Acos"},
      {"Atan", "Atan"},       {"Sinh", "Sinh"},   {"Cosh", "Cosh"},
      {"Erf", "Erf"},         {"Sign", "Sign"},   {"Floor", "Floor"},
      {"Ceil", "Ceil"},       {"Round", "Round"}, {"Reciprocal", "Reciprocal"},
      {"Sigmoid", "Sigmoid"}, {"Selu", "Selu"},   {"Add", "AddV2"},
      {"Sub", "Sub"},         {"Mul", "Mul"},     {"Mod", "FloorMod"},
      {"Pow", "Pow"}};
  return names;
}

void same(Call& call) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < call.inputs(); ++i) inputs.push_back(call.in(i));
  call.give(call.add(same_operations().at(call.node().op_type()), inputs));
}

void divide(Call& call) {
  call.give(
      call.add(is_float(call.dtype(0)) ? "RealDiv" : "TruncateDiv", {call.in(0), call.in(1)}));
}

void compare(Call& call) {
  static const std::map<std::string, std::string> kNames = {{"Equal", "Equal"},
                                                            {"Less", "Less"},
                                                            {"LessOrEqual", "LessEqual"},
                                                            {"Greater", "Greater"},
                                                            {"GreaterOrEqual", "GreaterEqual"}};
  call.give(call.add_as(BundleDtype::kBool, kNames.at(call.node().op_type()),
                        {call.in(0), call.in(1)}, {{"T", type_value(call.dtype(0))}}));
}

void logic(Call& call) {
  static const std::map<std::string, std::string> kNames = {
      {"And", "LogicalAnd"}, {"Or", "LogicalOr"}, {"Not", "LogicalNot"}};
  std::vector<std::string> inputs;
  for (size_t i = 0; i < call.inputs(); ++i) inputs.push_back(call.in(i));
  call.give(call.add_as(BundleDtype::kBool, kNames.at(call.node().op_type()), inputs, {}));
}

void differ(Call& call) {
  call.give(call.add_as(BundleDtype::kBool, "NotEqual", {call.in(0), call.in(1)},
                        {{"T", type_value(BundleDtype::kBool)}}));
}

void test_number(Call& call) {
  call.give(call.add_as(BundleDtype::kBool, call.node().op_type() == "IsNaN" ? "IsNan" : "IsInf",
                        {call.in(0)}, {{"T", type_value(call.dtype(0))}}));
}

void choose(Call& call) { call.give(call.choose(call.in(0), call.in(1), call.in(2))); }

void extreme(Call& call) {
  std::string result = call.in(0);
  for (size_t i = 1; i < call.inputs(); ++i)
    result = call.add(call.node().op_type() == "Max" ? "Maximum" : "Minimum", {result, call.in(i)});
  call.give(result);
}

void elu(Call& call) {
  const std::string x = call.in(0);
  const double alpha = call.number("alpha", 1);
  if (alpha == 1) return call.give(call.add("Elu", {x}));
  const std::string zero = call.number_like(x, 0);
  const std::string low = call.add("Expm1", {call.add("Minimum", {x, zero})});
  const std::string above =
      call.add_as(BundleDtype::kBool, "Greater", {x, zero}, {{"T", type_value(call.dtype(0))}});
  call.give(call.choose(above, x, call.add("Mul", {low, call.number_like(x, alpha)})));
}

void leaky_relu(Call& call) {
  call.give(call.add("LeakyRelu", {call.in(0)},
                     {{"alpha", number_value(static_cast<float>(call.number("alpha", 0.01)))}}));
}

void prelu(Call& call) {
  const std::string x = call.in(0), zero = call.number_like(x, 0);
  const std::string low = call.add("Mul", {call.in(1), call.add("Minimum", {x, zero})});
  call.give(call.add("AddV2", {call.add("Relu", {x}), low}));
}

void cast(Call& call) { call.give(call.cast(call.in(0), call.result().dtype)); }

void identity(Call& call) { call.give(call.in(0)); }

}  // namespace

void add_elementwise(OperationMap& map) {
  for (const auto& [name, other] : same_operations()) map[name] = same;
  map["Div"] = divide;
  for (const char* name : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    map[name] = compare;
  for (const char* name : {"And", "Or", "Not"}) map[name] = logic;
  map["Xor"] = differ;
  map["IsNaN"] = test_number;
  map["IsInf"] = test_number;
  map["Where"] = choose;
  map["Max"] = extreme;
  map["Min"] = extreme;
  map["Elu"] = elu;
  map["LeakyRelu"] = leaky_relu;
  map["PRelu"] = prelu;
  map["Cast"] = cast;
  map["Identity"] = identity;
}

}  // namespace muster::inline v0_1::saved_model::internal

// Comparisons, logic, and choices by them.
#include "muster/onnx/internal/operations.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

// The dtype in which two arguments are compared.
DType common_dtype(const Call& call, const char* other) {
  const Tensor self = call.form("self");
  if (call.is_tensor(other)) return at::result_type(self, call.form(other));
  return at::result_type(self, c10::Scalar(call.number(other)));
}

void compare(Call& call) {
  static const std::map<std::string, std::string> kNames = {
      {"aten::eq", "Equal"},       {"aten::ne", "Equal"},   {"aten::lt", "Less"},
      {"aten::le", "LessOrEqual"}, {"aten::gt", "Greater"}, {"aten::ge", "GreaterOrEqual"}};
  // A whole number with a fraction of zero is compared as the tensor is.
  DType dtype = common_dtype(call, "other");
  if (!call.is_tensor("other")) {
    const double value = call.number("other");
    if (!at::isFloatingType(call.dtype("self")) && value == static_cast<double>(int64_t(value)))
      dtype = at::kLong;
  }
  if (dtype == at::kBool && call.operation() != "aten::eq" && call.operation() != "aten::ne")
    dtype = at::kInt;
  const std::string result =
      call.add(kNames.at(call.operation()), {call.in("self", dtype), call.in("other", dtype)});
  call.give(call.operation() == "aten::ne" ? call.add("Not", {result}) : result);
}

void logic(Call& call) {
  static const std::map<std::string, std::string> kNames = {
      {"aten::logical_and", "And"}, {"aten::logical_or", "Or"}, {"aten::logical_xor", "Xor"},
      {"aten::bitwise_and", "And"}, {"aten::bitwise_or", "Or"}, {"aten::bitwise_xor", "Xor"},
      {"aten::__and__", "And"},     {"aten::__or__", "Or"}};
  if (call.result_dtype() != at::kBool) call.refuse("combines the bits of integers");
  call.give(call.add(kNames.at(call.operation()),
                     {call.in("self", at::kBool), call.in("other", at::kBool)}));
}

void negate(Call& call) {
  if (call.result_dtype() != at::kBool) call.refuse("turns the bits of integers");
  call.give(call.add("Not", {call.in("self", at::kBool)}));
}

void is_nan(Call& call) {
  if (!at::isFloatingType(call.dtype("self"))) call.refuse("looks for NaN among integers");
  call.give(call.add("IsNaN", {call.in("self")}));
}

void is_inf(Call& call) { call.give(call.add("IsInf", {call.in("self", at::kFloat)})); }

void choose(Call& call) {
  if (!call.has("self")) call.refuse("gives indices");
  const DType dtype = call.result_dtype();
  call.give(call.add(
      "Where", {call.in("condition", at::kBool), call.in("self", dtype), call.in("other", dtype)}));
}

void fill_by_mask(Call& call) {
  const DType dtype = call.result_dtype();
  call.give(call.add(
      "Where", {call.in("mask", at::kBool), call.in("value", dtype), call.in("self", dtype)}));
}

void replace_nan(Call& call) {
  if (call.has("posinf") || call.has("neginf")) call.refuse("replaces infinities");
  const DType dtype = call.result_dtype();
  const std::string x = call.in("self", dtype);
  const std::string nan = call.writer().scalar(call.number_or("nan", 0), dtype);
  call.give(call.add("Where", {call.add("IsNaN", {x}), nan, x}));
}

}  // namespace

void add_comparisons(OperationMap& map) {
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"})
    map[std::string("aten::") + name] = compare;
  for (const char* name : {"logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
                           "bitwise_xor", "__and__", "__or__"})
    map[std::string("aten::") + name] = logic;
  map["aten::logical_not"] = negate;
  map["aten::bitwise_not"] = negate;
  map["aten::isnan"] = is_nan;
  map["aten::isinf"] = is_inf;
  map["aten::where"] = choose;
  map["aten::masked_fill"] = fill_by_mask;
  map["aten::nan_to_num"] = replace_nan;
}

}  // namespace muster::inline v0_1::onnx::internal

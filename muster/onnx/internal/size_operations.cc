// Sizes and integers that follow a free axis, and tensors made of sizes. Such an integer is an
// int64 [1] in ONNX.
#include "muster/onnx/internal/operations.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

void size(Call& call) {
  const std::string tensor = call.in("self");
  if (call.has("dim")) return call.give(call.size_at(tensor, call.axis("dim", call.rank("self"))));
  std::vector<std::string> sizes;
  for (int64_t axis = 0; axis < call.rank("self"); ++axis)
    sizes.push_back(call.size_at(tensor, axis));
  call.give(sizes);
}

void integer_to_tensor(Call& call) {
  call.give(call.add("Squeeze", {call.size_of("a"), call.writer().integers({0})}));
}

void tensor_to_integer(Call& call) {
  call.give(call.add("Reshape", {call.in("a", at::kLong), call.writer().integers({1})}));
}

// Integers of sizes, which are not negative.
void compute_integer(Call& call) {
  static const std::map<std::string, std::string> kNames = {
      {"aten::add", "Add"},      {"aten::sub", "Sub"}, {"aten::mul", "Mul"},
      {"aten::floordiv", "Div"}, {"prim::max", "Max"}, {"prim::min", "Min"}};
  call.give(call.add(kNames.at(call.operation()), {call.size_of("a"), call.size_of("b")}));
}

// A tensor of one number, in the shape `sizes`.
void fill(Call& call, const std::string& sizes, const std::string& number) {
  call.give(call.add("Expand", {number, sizes}));
}

void fill_sizes(Call& call) {
  const DType dtype = call.result_dtype();
  const std::string name = call.operation();
  if (name == "aten::full" || name == "aten::new_full")
    return fill(call, call.sizes_of("size"), call.in("fill_value", dtype));
  const bool ones = name == "aten::ones" || name == "aten::new_ones";
  fill(call, call.sizes_of("size"), call.writer().scalar(ones ? 1 : 0, dtype));
}

void fill_like(Call& call) {
  const DType dtype = call.result_dtype();
  const std::string name = call.operation(), sizes = call.add("Shape", {call.in("self")});
  if (name == "aten::full_like") return fill(call, sizes, call.in("fill_value", dtype));
  fill(call, sizes, call.writer().scalar(name == "aten::ones_like" ? 1 : 0, dtype));
}

void range(Call& call) {
  const DType dtype = call.result_dtype();
  const std::string start =
      call.has("start") ? call.in("start", dtype) : call.writer().scalar(0, dtype);
  const std::string step =
      call.has("step") ? call.in("step", dtype) : call.writer().scalar(1, dtype);
  call.give(call.add("Range", {start, call.in("end", dtype), step}));
}

}  // namespace

void add_sizes(OperationMap& map) {
  map["aten::size"] = size;
  map["prim::NumToTensor"] = integer_to_tensor;
  map["aten::Int"] = tensor_to_integer;
  map["aten::IntImplicit"] = tensor_to_integer;
  for (const char* name : {"add", "sub", "mul", "floordiv"})
    map[std::string("aten::") + name + kOfIntegers] = compute_integer;
  map["prim::max"] = compute_integer;
  map["prim::min"] = compute_integer;
  for (const char* name :
       {"zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty"})
    map[std::string("aten::") + name] = fill_sizes;
  for (const char* name : {"zeros_like", "ones_like", "full_like", "empty_like"})
    map[std::string("aten::") + name] = fill_like;
  map["aten::arange"] = range;
}

}  // namespace muster::inline v0_1::onnx::internal

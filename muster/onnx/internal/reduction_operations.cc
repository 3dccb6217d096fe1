// Sums, means, extremes and the like over axes.
#include <numeric>

#include "muster/onnx/internal/operations.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

struct Reduced {
  std::vector<int64_t> axes;
  int64_t keep;
};

Reduced reduced(const Call& call) {
  const int64_t rank = call.rank("self");
  Reduced result{call.axes("dim", rank), call.flag_or("keepdim", false) ? 1 : 0};
  if (result.axes.empty()) {
    result.axes.resize(static_cast<size_t>(rank));
    std::iota(result.axes.begin(), result.axes.end(), 0);
  }
  return result;
}

// ReduceSum takes its axes as an input in this opset, the others as an attribute.
std::string reduce(Call& call, const std::string& operation, const std::string& x,
                   const Reduced& what) {
  if (call.rank("self") == 0) return x;
  if (operation == "ReduceSum")
    return call.add(operation, {x, call.writer().integers(what.axes)}, {{"keepdims", what.keep}});
  return call.add(operation, {x}, {{"axes", what.axes}, {"keepdims", what.keep}});
}

void reduce_numbers(Call& call) {
  static const std::map<std::string, std::string> kNames = {
      {"aten::sum", "ReduceSum"},   {"aten::mean", "ReduceMean"},
      {"aten::amax", "ReduceMax"},  {"aten::amin", "ReduceMin"},
      {"aten::prod", "ReduceProd"}, {"aten::logsumexp", "ReduceLogSumExp"}};
  const std::string x = call.in("self", call.result_dtype());
  call.give(reduce(call, kNames.at(call.operation()), x, reduced(call)));
}

// Of bool: 0 and 1.
void reduce_logic(Call& call) {
  const std::string x = call.cast(call.in("self", at::kBool), at::kBool, at::kInt);
  const std::string name = call.operation() == "aten::any" ? "ReduceMax" : "ReduceMin";
  call.give(call.cast(reduce(call, name, x, reduced(call)), at::kInt, at::kBool));
}

// max(x) and max(x, dim), which gives places too; max(x, y) compares two tensors.
void extreme(Call& call) {
  const bool largest = call.operation() == "aten::max";
  const DType dtype = call.result_dtype();
  if (call.has("other"))
    return call.give(
        call.add(largest ? "Max" : "Min", {call.in("self", dtype), call.in("other", dtype)}));
  const std::string x = call.in("self");
  const Reduced what = reduced(call);
  call.give(reduce(call, largest ? "ReduceMax" : "ReduceMin", x, what));
  if (call.node().outputs().size() == 2) {
    call.give(call.add(largest ? "ArgMax" : "ArgMin", {x},
                       {{"axis", what.axes.at(0)}, {"keepdims", what.keep}}),
              1);
  }
}

void place_of_extreme(Call& call) {
  std::string x = call.in("self");
  if (call.dtype("self") == at::kBool) x = call.cast(x, at::kBool, at::kInt);
  const std::string name = call.operation() == "aten::argmax" ? "ArgMax" : "ArgMin";
  const int64_t keep = call.flag_or("keepdim", false) ? 1 : 0;
  if (call.has("dim")) {
    return call.give(
        call.add(name, {x}, {{"axis", call.axis("dim", call.rank("self"))}, {"keepdims", keep}}));
  }
  const std::string flat = call.add("Reshape", {x, call.writer().integers({-1})});
  call.give(call.add(name, {flat}, {{"axis", int64_t{0}}, {"keepdims", int64_t{0}}}));
}

// The variance, of which LibTorch's versions name the correction in two ways.
std::string variance_of(Call& call) {
  Reduced what = reduced(call);
  const Reduced kept{what.axes, 1};
  const std::string x = call.in("self");
  const std::string apart = call.add("Sub", {x, reduce(call, "ReduceMean", x, kept)});
  const std::string squares = call.add("Mul", {apart, apart});
  double correction = call.flag_or("unbiased", true) ? 1 : 0;
  if (call.has("correction")) correction = call.number("correction");
  if (correction == 0) return reduce(call, "ReduceMean", squares, what);
  double count = 1;
  for (const int64_t axis : what.axes) {
    if (!call.is_fixed_argument("self", axis)) call.refuse("is of a free axis");
    count *= static_cast<double>(call.form("self").size(axis));
  }
  return call.add("Div", {reduce(call, "ReduceSum", squares, what),
                          call.writer().scalar(count - correction, call.dtype("self"))});
}

void variance(Call& call) { call.give(variance_of(call)); }
void deviation(Call& call) { call.give(call.add("Sqrt", {variance_of(call)})); }

void norm(Call& call) {
  const double p = call.has("p") ? call.number("p") : call.has("ord") ? call.number("ord") : 2;
  if (p != 1 && p != 2) call.refuse("has another order than 1 and 2");
  call.give(reduce(call, p == 1 ? "ReduceL1" : "ReduceL2", call.in("self", call.result_dtype()),
                   reduced(call)));
}

void running_sum(Call& call) {
  const DType dtype = call.result_dtype();
  const int64_t axis = call.axis("dim", call.rank("self"));
  call.give(call.add("CumSum", {call.in("self", dtype),
                                call.writer().scalar(static_cast<double>(axis), at::kLong)}));
}

void largest(Call& call) {
  const int64_t axis = call.axis("dim", call.rank("self"));
  const auto results =
      call.writer().add_with_outputs("TopK", {call.in("self"), call.size_of("k")},
                                     {{"axis", axis},
                                      {"largest", int64_t{call.flag("largest") ? 1 : 0}},
                                      {"sorted", int64_t{call.flag("sorted") ? 1 : 0}}},
                                     2);
  call.give(results[0], 0);
  call.give(results[1], 1);
}

}  // namespace

void add_reductions(OperationMap& map) {
  for (const char* name : {"sum", "mean", "amax", "amin", "prod", "logsumexp"})
    map[std::string("aten::") + name] = reduce_numbers;
  map["aten::any"] = reduce_logic;
  map["aten::all"] = reduce_logic;
  map["aten::max"] = extreme;
  map["aten::min"] = extreme;
  map["aten::argmax"] = place_of_extreme;
  map["aten::argmin"] = place_of_extreme;
  map["aten::var"] = variance;
  map["aten::std"] = deviation;
  map["aten::norm"] = norm;
  map["aten::linalg_vector_norm"] = norm;
  map["aten::cumsum"] = running_sum;
  map["aten::topk"] = largest;
}

}  // namespace muster::inline v0_1::onnx::internal

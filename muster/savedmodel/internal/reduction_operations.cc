// Sums, means, extremes and the like over axes.
#include <algorithm>
#include <numeric>

#include "muster/savedmodel/internal/operations.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

struct Reduced {
  std::vector<int64_t> axes;
  bool keep;
};

// ReduceSum has its axes as an argument in this opset, the others as an attribute.
Reduced reduced(const Call& call) {
  const int64_t rank = call.rank(0);
  Reduced result{call.has(1) ? call.integers_in(1) : call.integers("axes"),
                 call.integer("keepdims", 1) != 0};
  if (result.axes.empty()) {
    result.axes.resize(static_cast<size_t>(rank));
    std::iota(result.axes.begin(), result.axes.end(), 0);
  }
  for (int64_t& axis : result.axes) axis = axis < 0 ? axis + rank : axis;
  return result;
}

void reduce(Call& call) {
  static const std::map<std::string, std::string> kNames = {{"ReduceSum", "Sum"},
                                                            {"ReduceMean", "Mean"},
                                                            {"ReduceMax", "Max"},
                                                            {"ReduceMin", "Min"},
                                                            {"ReduceProd", "Prod"}};
  const Reduced what = reduced(call);
  call.give(call.reduce(kNames.at(call.node().op_type()), call.in(0), what.axes, what.keep));
}

void norm(Call& call) {
  const Reduced what = reduced(call);
  if (call.node().op_type() == "ReduceL1")
    return call.give(call.reduce("Sum", call.add("Abs", {call.in(0)}), what.axes, what.keep));
  call.give(call.add("Sqrt",
                     {call.reduce("Sum", call.add("Square", {call.in(0)}), what.axes, what.keep)}));
}

// log(sum(e^x)), less the largest before and with it again after.
void log_of_sum(Call& call) {
  const Reduced what = reduced(call);
  const std::string x = call.in(0), largest = call.reduce("Max", x, what.axes, true);
  const std::string sum =
      call.reduce("Sum", call.add("Exp", {call.add("Sub", {x, largest})}), what.axes, true);
  const std::string y = call.add("AddV2", {call.add("Log", {sum}), largest});
  if (what.keep) return call.give(y);
  call.give(call.add("Squeeze", {y}, {{"squeeze_dims", integer_values(what.axes)}}));
}

void place_of_extreme(Call& call) {
  const int64_t axis = call.axis(0, call.rank(0));
  std::string y = call.add_as(BundleDtype::kInt64, call.node().op_type(),
                              {call.in(0), call.graph().int32(axis)},
                              {{"T", type_value(call.dtype(0))},
                               {"Tidx", type_value(BundleDtype::kInt32)},
                               {"output_type", type_value(BundleDtype::kInt64)}});
  if (call.integer("keepdims", 1) != 0)
    y = call.add("ExpandDims", {y, call.graph().int32(axis)},
                 {{"Tdim", type_value(BundleDtype::kInt32)}});
  call.give(y);
}

void running_sum(Call& call) {
  const auto axis = call.integers_in(1);
  call.give(call.add("Cumsum", {call.in(0), call.graph().int32(axis.at(0))},
                     {{"Tidx", type_value(BundleDtype::kInt32)}}));
}

void largest(Call& call) {
  const int64_t rank = call.rank(0), axis = call.axis(-1, rank);
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  const bool smallest = call.integer("largest", 1) == 0;
  std::string x = call.transpose(call.in(0), order);
  if (smallest) x = call.add("Neg", {x});
  const std::string count = call.scalar_of(call.cast(call.in(1), BundleDtype::kInt32));
  const auto results = call.graph().add_with_outputs(
      "TopKV2", {x, count}, {{"T", type_value(call.dtype(0))}, {"sorted", flag_value(true)}},
      {call.dtype(0), BundleDtype::kInt32});
  const std::string values = smallest ? call.add("Neg", {results[0]}) : results[0];
  call.give(call.transpose(values, order), 0);
  call.give(call.transpose(call.cast(results[1], BundleDtype::kInt64), order), 1);
}

}  // namespace

void add_reductions(OperationMap& map) {
  for (const char* name : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"})
    map[name] = reduce;
  map["ReduceL1"] = norm;
  map["ReduceL2"] = norm;
  map["ReduceLogSumExp"] = log_of_sum;
  map["ArgMax"] = place_of_extreme;
  map["ArgMin"] = place_of_extreme;
  map["CumSum"] = running_sum;
  map["TopK"] = largest;
}

}  // namespace muster::inline v0_1::saved_model::internal

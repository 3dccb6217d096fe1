// Sums, means, largest numbers, order.
#include <algorithm>
#include <limits>
#include <numeric>

#include "muster/imports/internal/kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;
using Reduce = Tensor (*)(const Tensor& x, at::IntArrayRef axes, bool keep);

Tensor sum(const Tensor& x, at::IntArrayRef axes, bool keep) {
  return at::sum(x, axes, keep, x.scalar_type());
}
Tensor mean(const Tensor& x, at::IntArrayRef axes, bool keep) {
  if (at::isFloatingType(x.scalar_type())) return at::mean(x, axes, keep);
  return at::mean(x.to(at::kDouble), axes, keep).to(x.scalar_type());
}
// Of no numbers ONNX has the least or the greatest number of the dtype.
Tensor extreme_of_none(const Tensor& x, at::IntArrayRef axes, bool keep, double sign) {
  const Tensor shape = at::sum(x, axes, keep);
  const auto options = x.options();
  if (at::isFloatingType(x.scalar_type()))
    return at::full(shape.sizes(), sign * std::numeric_limits<double>::infinity(), options);
  if (x.scalar_type() == at::kBool) return at::full(shape.sizes(), sign > 0, options);
  if (x.scalar_type() == at::kByte) return at::full(shape.sizes(), sign > 0 ? 255 : 0, options);
  const auto bits = static_cast<int>(8 * x.element_size());
  const auto most = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  return at::full(shape.sizes(), sign > 0 ? most : -most - 1, options);
}
Tensor largest(const Tensor& x, at::IntArrayRef axes, bool keep) {
  return x.numel() == 0 ? extreme_of_none(x, axes, keep, -1) : at::amax(x, axes, keep);
}
Tensor least(const Tensor& x, at::IntArrayRef axes, bool keep) {
  return x.numel() == 0 ? extreme_of_none(x, axes, keep, 1) : at::amin(x, axes, keep);
}
Tensor product(const Tensor& x, at::IntArrayRef axes, bool keep) {
  Tensor result = x;
  for (const int64_t axis : axes)
    result = at::prod(result, axis, /*keepdim=*/true, x.scalar_type());
  if (keep) return result;
  for (size_t i = axes.size(); i > 0; --i) result = result.squeeze(axes[i - 1]);
  return result;
}
Tensor l1(const Tensor& x, at::IntArrayRef axes, bool keep) { return sum(x.abs(), axes, keep); }
Tensor squares(const Tensor& x, at::IntArrayRef axes, bool keep) {
  return sum(x.mul(x), axes, keep);
}
Tensor l2(const Tensor& x, at::IntArrayRef axes, bool keep) {
  return at::sqrt(squares(x, axes, keep)).to(x.scalar_type());
}
Tensor log_sum(const Tensor& x, at::IntArrayRef axes, bool keep) {
  return at::log(sum(x, axes, keep)).to(x.scalar_type());
}
Tensor log_sum_exp(const Tensor& x, at::IntArrayRef axes, bool keep) {
  return at::logsumexp(x, axes, keep).to(x.scalar_type());
}

template <Reduce kReduce>
Results reduce(NodeRun& call) {
  const Tensor x = call.in(0);
  std::vector<int64_t> axes = call.axes(1, x.dim());
  if (axes.empty()) {
    if (call.integer_attribute("noop_with_empty_axes", 0) != 0) {
      // Each number is reduced alone.
      return {kReduce(x.unsqueeze(-1), {x.dim()}, /*keep=*/false)};
    }
    axes.resize(static_cast<size_t>(x.dim()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::ranges::sort(axes);
  const bool keep = call.integer_attribute("keepdims", 1) != 0;
  if (axes.empty()) return {kReduce(x.unsqueeze(-1), {0}, /*keep=*/false)};  // a scalar
  return {kReduce(x, axes, keep)};
}

Results find_extreme(NodeRun& call) {
  Tensor x = call.in(0);
  const int64_t axis = call.axis("axis", 0, x.dim());
  const bool last = call.integer_attribute("select_last_index", 0) != 0;
  const int64_t size = x.size(axis);
  if (last) x = x.flip({axis});
  const Tensor extreme =
      call.node().operation == "ArgMax" ? at::argmax(x, axis, true) : at::argmin(x, axis, true);
  const Tensor place = last ? at::rsub(extreme, size - 1) : extreme;
  return {call.integer_attribute("keepdims", 1) != 0 ? place : place.squeeze(axis)};
}

Results add_up(NodeRun& call) {
  Tensor x = call.in(0);
  const int64_t axis = call.normalized(call.integer(1), x.dim());
  const bool reverse = call.integer_attribute("reverse", 0) != 0;
  if (reverse) x = x.flip({axis});
  Tensor result = at::cumsum(x, axis, x.scalar_type());
  if (call.integer_attribute("exclusive", 0) != 0) result = result.sub(x);
  return {reverse ? result.flip({axis}) : result};
}

Results multiply_up(NodeRun& call) {
  Tensor x = call.in(0);
  const int64_t axis = call.normalized(call.integer(1), x.dim());
  const bool reverse = call.integer_attribute("reverse", 0) != 0;
  if (reverse) x = x.flip({axis});
  if (call.integer_attribute("exclusive", 0) != 0) {
    x = at::cat({at::ones_like(x.slice(axis, 0, 1)), x.slice(axis, 0, x.size(axis) - 1)}, axis);
  }
  const Tensor result = at::cumprod(x, axis, x.scalar_type());
  return {reverse ? result.flip({axis}) : result};
}

// Of equal numbers the first comes first.
Results take_largest(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t axis = call.axis("axis", -1, x.dim()), count = call.integer(1);
  call.require(count >= 0 && count <= x.size(axis), "k is larger than the axis");
  const bool descending = call.integer_attribute("largest", 1) != 0;
  const auto [values, places] = at::sort(x, /*stable=*/true, axis, descending);
  return {values.slice(axis, 0, count), places.slice(axis, 0, count)};
}

}  // namespace

void add_reduction_kernels(KernelMap& map) {
  map["ArgMax"] = {find_extreme};
  map["ArgMin"] = {find_extreme};
  map["CumProd"] = {multiply_up, 2};
  map["CumSum"] = {add_up, 2};
  map["ReduceL1"] = {reduce<l1>};
  map["ReduceL2"] = {reduce<l2>};
  map["ReduceLogSum"] = {reduce<log_sum>};
  map["ReduceLogSumExp"] = {reduce<log_sum_exp>};
  map["ReduceMax"] = {reduce<largest>};
  map["ReduceMean"] = {reduce<mean>};
  map["ReduceMin"] = {reduce<least>};
  map["ReduceProd"] = {reduce<product>};
  map["ReduceSum"] = {reduce<sum>};
  map["ReduceSumSquare"] = {reduce<squares>};
  map["TopK"] = {take_largest, 2};
}

}  // namespace muster::inline v0_1::onnx::internal

// Sums, means and extremes over axes.
#include <algorithm>
#include <limits>

#include "muster/imports/internal/tensorflow_kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {
namespace {

using ReduceAxes = Tensor (*)(const Tensor& x, at::IntArrayRef axes);

Tensor sum_axes(const Tensor& x, at::IntArrayRef axes) {
  return at::sum(x, axes, /*keepdim=*/true, x.scalar_type());
}
Tensor mean_axes(const Tensor& x, at::IntArrayRef axes) {
  if (at::isFloatingType(x.scalar_type())) return at::mean(x, axes, /*keepdim=*/true);
  return at::mean(x.to(at::kDouble), axes, /*keepdim=*/true).to(x.scalar_type());
}
// Of no floating-point numbers TensorFlow has the infinities.
Tensor extreme_axes(const Tensor& x, at::IntArrayRef axes, bool most) {
  if (x.numel() > 0 || !at::isFloatingType(x.scalar_type()))
    return most ? at::amax(x, axes, /*keepdim=*/true) : at::amin(x, axes, /*keepdim=*/true);
  const double infinity = std::numeric_limits<double>::infinity();
  return at::full_like(at::sum(x, axes, /*keepdim=*/true), most ? -infinity : infinity);
}
Tensor most_of_axes(const Tensor& x, at::IntArrayRef axes) { return extreme_axes(x, axes, true); }
Tensor least_of_axes(const Tensor& x, at::IntArrayRef axes) { return extreme_axes(x, axes, false); }
Tensor multiply_axes(const Tensor& x, at::IntArrayRef axes) {
  Tensor result = x;
  for (const int64_t axis : axes)
    result = at::prod(result, axis, /*keepdim=*/true, x.scalar_type());
  return result;
}
Tensor length_of_axes(const Tensor& x, at::IntArrayRef axes) {
  return at::sqrt(sum_axes(x.mul(x), axes));
}
Tensor any_of_axes(const Tensor& x, at::IntArrayRef axes) {
  return at::sum(x.to(at::kLong), axes, /*keepdim=*/true).gt(0);
}
Tensor all_of_axes(const Tensor& x, at::IntArrayRef axes) {
  return any_of_axes(x.logical_not(), axes).logical_not();
}

template <ReduceAxes kReduce>
Results reduce_axes(NodeRun& call) {
  const Tensor x = call.in(0);
  std::vector<int64_t> axes = call.integers(1);
  for (int64_t& axis : axes) axis = call.normalized(axis, x.dim());
  std::ranges::sort(axes);
  axes.erase(std::ranges::unique(axes).begin(), axes.end());
  if (axes.empty()) return {x};
  Tensor result = kReduce(x, axes);
  if (call.integer_attribute("keep_dims", 0) != 0) return {result};
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) result = result.squeeze(*axis);
  return {result};
}

}  // namespace

void add_tensorflow_reductions(KernelMap& map) {
  map["All"] = {reduce_axes<all_of_axes>, 2};
  map["Any"] = {reduce_axes<any_of_axes>, 2};
  map["EuclideanNorm"] = {reduce_axes<length_of_axes>, 2};
  map["Max"] = {reduce_axes<most_of_axes>, 2};
  map["Mean"] = {reduce_axes<mean_axes>, 2};
  map["Min"] = {reduce_axes<least_of_axes>, 2};
  map["Prod"] = {reduce_axes<multiply_axes>, 2};
  map["Sum"] = {reduce_axes<sum_axes>, 2};
}

}  // namespace muster::inline v0_1::imports

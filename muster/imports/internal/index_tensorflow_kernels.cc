// Elements by their places, and order: gather, scatter, one-hot, largest, running sums.
#include <algorithm>

#include "muster/imports/internal/tensorflow_kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {
namespace {

// Rows of a table: Gather and ResourceGather along axis 0, GatherV2 along any.
Results gather_rows(NodeRun& call) {
  const Tensor x = call.in(0), places = call.in(1).to(at::kLong);
  const bool second = call.node().operation == "GatherV2";
  const int64_t batch_given = call.integer_attribute("batch_dims", 0);
  const int64_t batch = batch_given < 0 ? batch_given + places.dim() : batch_given;
  const int64_t axis = second && call.has(2) ? axis_in(call, 2, x.dim()) : batch;
  call.require(axis >= 0 && axis < x.dim() && batch >= 0 && batch <= axis && batch <= places.dim(),
               "an axis is out of range");
  Shape shape(x.sizes().begin(), x.sizes().begin() + axis);
  shape.insert(shape.end(), places.sizes().begin() + batch, places.sizes().end());
  shape.insert(shape.end(), x.sizes().begin() + axis + 1, x.sizes().end());
  if (batch == 0) {
    const Tensor rows = x.index_select(axis, places.reshape({-1}));
    return {places.dim() == 1 ? rows : rows.reshape(shape)};
  }
  int64_t batches = 1, outer = 1, rest = 1;
  for (int64_t i = 0; i < batch; ++i) batches *= x.size(i);
  for (int64_t i = batch; i < axis; ++i) outer *= x.size(i);
  for (int64_t i = axis + 1; i < x.dim(); ++i) rest *= x.size(i);
  const Tensor table = x.reshape({batches, outer, x.size(axis), rest});
  const Tensor wanted = places.reshape({batches, 1, -1, 1});
  return {
      at::gather(table, 2, wanted.expand({batches, outer, wanted.size(2), rest})).reshape(shape)};
}

// [n, axes]
Results places_of_true(NodeRun& call) { return {at::nonzero(call.in(0))}; }

// Adds rows at places of the first axes; the places are [..., axes].
Tensor scattered(NodeRun& call, const Tensor& x, const Tensor& places, const Tensor& updates) {
  call.require(places.dim() > 0 && places.size(-1) <= x.dim(),
               "a place has more numbers than the tensor has axes");
  const Tensor flat = places.to(at::kLong).reshape({-1, places.size(-1)});
  if (flat.size(1) == 0) return x.add(updates);
  c10::List<c10::optional<Tensor>> indices;
  for (int64_t i = 0; i < flat.size(1); ++i) indices.push_back(flat.select(1, i));
  Shape shape{flat.size(0)};
  shape.insert(shape.end(), x.sizes().begin() + flat.size(1), x.sizes().end());
  return at::index_put(x, indices, updates.reshape(shape), /*accumulate=*/true);
}

Results add_at_places(NodeRun& call) {
  return {scattered(call, call.in(0), call.in(1), call.in(2))};
}

Results place_in_zeros(NodeRun& call) {
  const Tensor updates = call.in(1);
  const Tensor zeros = at::zeros(call.integers(2), updates.options());
  return {scattered(call, zeros, call.in(0), updates)};
}

// A place out of range gives a row that is off.
Results encode_one_hot(NodeRun& call) {
  const Tensor places = call.in(0), on = call.in(2), off = call.in(3);
  const int64_t depth = call.integer(1), rank = places.dim() + 1;
  call.require(depth >= 0, "its depth is below 0");
  const int64_t axis = call.axis("axis", -1, rank);
  Shape shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(axis)] = depth;
  const Tensor all = at::arange(depth, places.options().dtype(at::kLong)).reshape(shape);
  return {at::where(places.to(at::kLong).unsqueeze(axis).eq(all), on, off)};
}

// The number of boundaries at or below each number.
Results count_boundaries(NodeRun& call) {
  const Tensor x = call.in(0);
  const std::vector<double> boundaries = call.has_attribute("boundaries")
                                             ? call.attribute("boundaries").numbers
                                             : std::vector<double>();
  const Tensor edges = torch::tensor(boundaries, at::kFloat).to(x.device());
  return {at::searchsorted(edges, x.to(at::kFloat).contiguous(), /*out_int32=*/true,
                           /*right=*/true)};
}

// Of equal numbers the first comes first.
Results take_most(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t count = call.integer(1);
  call.require(x.dim() > 0 && count >= 0 && count <= x.size(-1), "k is larger than the axis");
  const auto [values, places] = at::sort(x, /*stable=*/true, -1, /*descending=*/true);
  return {values.slice(-1, 0, count), places.slice(-1, 0, count).to(at::kInt)};
}

Results find_largest(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t axis = call.has(1) ? axis_in(call, 1, x.dim()) : 0;
  const Tensor place =
      call.node().operation == "ArgMax" ? at::argmax(x, axis) : at::argmin(x, axis);
  return {place.to(dtype_attribute(call, "output_type", at::kLong))};
}

Results run_along_axis(NodeRun& call) {
  Tensor x = call.in(0);
  const int64_t axis = axis_in(call, 1, x.dim());
  const bool sums = call.node().operation == "Cumsum";
  const bool reverse = call.integer_attribute("reverse", 0) != 0;
  if (reverse) x = x.flip({axis});
  if (call.integer_attribute("exclusive", 0) != 0 && x.size(axis) > 0) {
    const Tensor first = x.slice(axis, 0, 1);
    x = at::cat(
        {sums ? at::zeros_like(first) : at::ones_like(first), x.slice(axis, 0, x.size(axis) - 1)},
        axis);
  }
  const Tensor y =
      sums ? at::cumsum(x, axis, x.scalar_type()) : at::cumprod(x, axis, x.scalar_type());
  return {reverse ? y.flip({axis}) : y};
}

// [batch, ...]: the first numbers of each row of an axis in the other order.
Results reverse_beginnings(NodeRun& call) {
  const int64_t steps_axis = call.integer_attribute("seq_dim", 0),
                batch_axis = call.integer_attribute("batch_dim", 0);
  const Tensor given = call.in(0), lengths = call.in(1).to(at::kLong);
  call.require(steps_axis != batch_axis && steps_axis >= 0 && batch_axis >= 0 &&
                   steps_axis < given.dim() && batch_axis < given.dim(),
               "an axis is out of range");
  const Tensor x = given.movedim({steps_axis, batch_axis}, {0, 1});
  const Tensor step = at::arange(x.size(0), lengths.options()).unsqueeze(1);
  Tensor places = at::where(step.lt(lengths), lengths.sub(1).sub(step), step);
  for (int64_t i = 2; i < x.dim(); ++i) places = places.unsqueeze(-1);
  return {at::gather(x, 0, places.expand_as(x)).movedim({0, 1}, {steps_axis, batch_axis})};
}

}  // namespace

void add_tensorflow_indexing(KernelMap& map) {
  map["ArgMax"] = {find_largest};
  map["ArgMin"] = {find_largest};
  map["Bucketize"] = {count_boundaries};
  map["Cumprod"] = {run_along_axis, 2};
  map["Cumsum"] = {run_along_axis, 2};
  map["Gather"] = {gather_rows, 2};
  map["GatherV2"] = {gather_rows, 2};
  map["OneHot"] = {encode_one_hot, 4};
  map["ResourceGather"] = {gather_rows, 2};
  map["ReverseSequence"] = {reverse_beginnings, 2};
  map["ScatterNd"] = {place_in_zeros, 3, /*sized=*/true};
  map["TensorScatterAdd"] = {add_at_places, 3};
  map["TopKV2"] = {take_most, 2};
  map["Where"] = {places_of_true};
}

}  // namespace muster::inline v0_1::imports

// What feature columns of tf.estimator make of ids: sparse tensors as their places, [n, axes],
// their values, and their shape.
#include <algorithm>

#include "muster/imports/internal/graph_run.h"
#include "muster/imports/internal/tensorflow_kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {
namespace {

// The places in a tensor of one axis, row after row.
Tensor flat_places_in(NodeRun& call, const Tensor& places, const std::vector<int64_t>& shape) {
  call.require(places.dim() == 2 && places.size(1) == static_cast<int64_t>(shape.size()),
               "its places do not have a number for each axis");
  Tensor flat = at::zeros({places.size(0)}, places.options().dtype(at::kLong));
  for (size_t i = 0; i < shape.size(); ++i)
    flat = flat.mul(shape[i]).add(places.select(1, static_cast<int64_t>(i)));
  return flat;
}

Results reshape_sparse(NodeRun& call) {
  const std::vector<int64_t> from = call.integers(1);
  std::vector<int64_t> to = call.integers(2);
  int64_t all = 1, known = 1;
  for (const int64_t size : from) all *= size;
  for (const int64_t size : to) known *= size == -1 ? 1 : size;
  const auto rest = std::ranges::find(to, -1);
  if (rest != to.end()) {
    call.require(known > 0 && all % known == 0, "its shapes have different numbers of elements");
    *rest = all / known;
    known *= *rest;
  }
  call.require(known == all, "its shapes have different numbers of elements");
  Tensor flat = flat_places_in(call, call.in(0), from);
  std::vector<Tensor> columns;
  for (size_t i = to.size(); i > 0; --i) {
    const int64_t size = std::max<int64_t>(to[i - 1], 1);
    columns.push_back(at::remainder(flat, size));
    flat = at::div(flat, size, "floor");
  }
  std::ranges::reverse(columns);
  const Tensor places =
      columns.empty() ? at::zeros({flat.size(0), 0}, flat.options()) : at::stack(columns, 1);
  return {places, integers_of(to, at::kLong).to(call.graph().device())};
}

// Adds an element to each row without one. (places, values, shape, default)
Results fill_empty_rows(NodeRun& call) {
  const Tensor places = call.in(0), values = call.in(1), otherwise = call.in(3);
  const std::vector<int64_t> shape = call.integers(2);
  call.require(
      places.dim() == 2 && !shape.empty() && places.size(1) == static_cast<int64_t>(shape.size()),
      "its places do not have a number for each axis");
  const Tensor rows = places.select(1, 0);
  const Tensor is_empty =
      at::zeros({shape[0]}, places.options()).index_add(0, rows, at::ones_like(rows)).eq(0);
  const Tensor empty = at::nonzero(is_empty).squeeze(1);
  Tensor added = at::zeros({empty.size(0), places.size(1)}, places.options());
  if (added.size(1) > 1) {
    added = at::cat({empty.unsqueeze(1), added.slice(1, 1)}, 1);
  } else {
    added = empty.unsqueeze(1);
  }
  const Tensor joined = at::cat({places, added}, 0);
  const Tensor order = std::get<1>(at::sort(joined.select(1, 0), /*stable=*/true, 0, false));
  const Tensor filled =
      at::cat({values, otherwise.reshape({1}).expand({empty.size(0)})}, 0).index_select(0, order);
  const Tensor back = std::get<1>(at::sort(order, /*stable=*/true, 0, false));
  return {joined.index_select(0, order), filled, is_empty, back.slice(0, 0, places.size(0))};
}

// In the order in which they come first.
Results find_unique(NodeRun& call) {
  const Tensor x = call.in(0).reshape({-1});
  const auto [sorted, which, counts] =
      at::unique_dim(x, 0, /*sorted=*/true, /*return_inverse=*/true, /*return_counts=*/true);
  // Where each comes first: equal ones keep their order.
  const Tensor groups = std::get<1>(at::sort(which, /*stable=*/true, 0, false));
  const Tensor first = groups.index_select(0, counts.cumsum(0).sub(counts));
  const Tensor order = std::get<1>(at::sort(first, /*stable=*/true, 0, false));
  const Tensor place = std::get<1>(at::sort(order, /*stable=*/true, 0, false));
  return {sorted.index_select(0, order),
          place.index_select(0, which).to(dtype_attribute(call, "out_idx", at::kInt))};
}

// (rows, which of them, segment of each): sums, means, or sums over roots of counts.
Results reduce_segments(NodeRun& call) {
  const Tensor table = call.in(0), segments = call.in(2).to(at::kLong);
  const Tensor rows = table.index_select(0, call.in(1).to(at::kLong).reshape({-1}));
  const std::string& operation = call.node().operation;
  const bool has_count = operation.ends_with("WithNumSegments");
  int64_t count = 0;
  if (has_count) {
    count = call.integer(3);
  } else if (segments.numel() > 0) {
    count = segments.max().item<int64_t>() + 1;
  }
  Shape shape = rows.sizes().vec();
  shape[0] = count;
  const Tensor sums = at::zeros(shape, rows.options()).index_add(0, segments, rows);
  if (operation.starts_with("SparseSegmentSum")) return {sums};
  Tensor counts = at::zeros({count}, rows.options())
                      .index_add(0, segments, at::ones({rows.size(0)}, rows.options()))
                      .clamp_min(1);
  if (operation.starts_with("SparseSegmentSqrtN")) counts = counts.sqrt();
  for (int64_t i = 1; i < rows.dim(); ++i) counts = counts.unsqueeze(-1);
  return {sums.div(counts)};
}

// (places, shape, values, default)
Results make_dense(NodeRun& call) {
  const std::vector<int64_t> shape = call.integers(1);
  const Tensor values = call.in(2), otherwise = call.in(3);
  Tensor places = call.in(0);
  if (places.dim() < 2) places = places.reshape({-1, 1});
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const Tensor flat = flat_places_in(call, places, shape);
  const Tensor dense = otherwise.reshape({1}).expand({count});
  return {dense.scatter(0, flat, values.reshape({-1}).expand({flat.size(0)})).reshape(shape)};
}

}  // namespace

void add_tensorflow_sparse(KernelMap& map) {
  map["SparseFillEmptyRows"] = {fill_empty_rows, 4};
  map["SparseReshape"] = {reshape_sparse, 3};
  for (const char* name : {"SparseSegmentMean", "SparseSegmentSqrtN", "SparseSegmentSum"})
    map[name] = {reduce_segments, 3};
  for (const char* name : {"SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments",
                           "SparseSegmentSumWithNumSegments"})
    map[name] = {reduce_segments, 4};
  map["SparseToDense"] = {make_dense, 4, /*sized=*/true};
  map["Unique"] = {find_unique};
}

}  // namespace muster::inline v0_1::imports

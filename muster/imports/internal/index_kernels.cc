// Elements by their places: gather, scatter, choose; and sums over products of axes.
#include <algorithm>

#include "muster/imports/internal/kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

// Places below 0 count from the end.
Tensor places_from_0(const Tensor& places, int64_t size) {
  const Tensor numbers = places.to(at::kLong);
  return at::where(numbers.lt(0), numbers.add(size), numbers);
}

Results gather(NodeRun& call) {
  const Tensor x = call.in(0), places = call.in(1);
  const int64_t axis = call.axis("axis", 0, x.dim());
  const Tensor flat = places_from_0(places, x.size(axis)).reshape({-1});
  Shape shape = x.sizes().vec();
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, places.sizes().begin(), places.sizes().end());
  const Tensor rows = x.index_select(axis, flat);
  return {places.dim() == 1 ? rows : rows.reshape(shape)};
}

Results gather_elements(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t axis = call.axis("axis", 0, x.dim());
  return {at::gather(x, axis, places_from_0(call.in(1), x.size(axis)))};
}

// The places of rows in the first `depth` axes from `first` on, as places in one axis.
Tensor flat_places(NodeRun& call, const Tensor& x, const Tensor& places, int64_t first) {
  const int64_t depth = places.size(-1);
  call.require(first + depth <= x.dim(), "a place has more numbers than the tensor has axes");
  Tensor flat = at::zeros(places.sizes().slice(0, static_cast<size_t>(places.dim() - 1)),
                          places.options().dtype(at::kLong));
  for (int64_t i = 0; i < depth; ++i) {
    const int64_t size = x.size(first + i);
    const Tensor one = places_from_0(places.select(-1, i), size);
    call.require(one.numel() == 0 || one.lt(size).logical_and(one.ge(0)).all().item<bool>(),
                 "a place is out of range");
    flat = flat.mul(size).add(one);
  }
  return flat;
}

Results gather_nd(NodeRun& call) {
  const Tensor x = call.in(0), places = call.in(1);
  const int64_t batch = call.integer_attribute("batch_dims", 0);
  call.require(batch >= 0 && batch < x.dim() && batch < places.dim(), "batch_dims is out of range");
  const int64_t depth = places.size(-1);
  const Tensor flat = flat_places(call, x, places, batch);
  const auto sizes = x.sizes();
  Shape shape(places.sizes().begin(), places.sizes().end() - 1);
  shape.insert(shape.end(), sizes.begin() + batch + depth, sizes.end());
  int64_t batches = 1, rows = 1, rest = 1;
  for (int64_t i = 0; i < batch; ++i) batches *= x.size(i);
  for (int64_t i = batch; i < batch + depth; ++i) rows *= x.size(i);
  for (int64_t i = batch + depth; i < x.dim(); ++i) rest *= x.size(i);
  const Tensor table = x.reshape({batches, rows, rest});
  const Tensor wanted = flat.reshape({batches, -1, 1}).expand({batches, -1, rest});
  return {at::gather(table, 1, wanted).reshape(shape)};
}

// Writes `updates` along an axis, as the attribute "reduction" says.
Tensor scatter(NodeRun& call, const Tensor& x, int64_t axis, const Tensor& places,
               const Tensor& updates) {
  const std::string reduction = call.text_attribute("reduction", "none");
  if (reduction == "none") return x.scatter(axis, places, updates);
  if (reduction == "add") return x.scatter_add(axis, places, updates);
  const char* name = reduction == "mul"   ? "prod"
                     : reduction == "max" ? "amax"
                     : reduction == "min" ? "amin"
                                          : nullptr;
  if (name == nullptr) call.refuse("has the reduction " + reduction);
  return at::scatter_reduce(x, axis, places, updates, name, /*include_self=*/true);
}

Results scatter_elements(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t axis = call.axis("axis", 0, x.dim());
  return {scatter(call, x, axis, places_from_0(call.in(1), x.size(axis)), call.in(2))};
}

Results scatter_nd(NodeRun& call) {
  const Tensor x = call.in(0), places = call.in(1);
  call.require(places.dim() > 0, "its places are one number");
  const int64_t depth = places.size(-1);
  const Tensor flat = flat_places(call, x, places, 0).reshape({-1, 1});
  int64_t rows = 1, rest = 1;
  for (int64_t i = 0; i < x.dim(); ++i) (i < depth ? rows : rest) *= x.size(i);
  const Tensor table = x.reshape({rows, rest});
  const Tensor updates = call.in(2).reshape({flat.size(0), rest});
  return {scatter(call, table, 0, flat.expand({-1, rest}), updates).reshape(x.sizes())};
}

Results one_hot(NodeRun& call) {
  const Tensor places = call.in(0), values = call.in(2);
  const int64_t depth = call.integer(1), rank = places.dim() + 1;
  const int64_t axis = call.normalized(call.integer_attribute("axis", -1), rank);
  const Tensor all = at::arange(depth, places.options().dtype(at::kLong));
  Shape shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(axis)] = depth;
  const Tensor on = places_from_0(places, depth).unsqueeze(axis).eq(all.reshape(shape));
  return {at::where(on, values.select(0, 1), values.select(0, 0))};
}

Results non_zero(NodeRun& call) { return {at::nonzero(call.in(0)).t()}; }

Results compress(NodeRun& call) {
  const Tensor x = call.in(0), condition = call.in(1).to(at::kBool);
  const Tensor kept = at::nonzero(condition).reshape({-1});
  if (!call.has_attribute("axis")) return {x.reshape({-1}).index_select(0, kept)};
  return {x.index_select(call.axis("axis", 0, x.dim()), kept)};
}

Results reverse_sequence(NodeRun& call) {
  const int64_t time = call.integer_attribute("time_axis", 0),
                batch = call.integer_attribute("batch_axis", 1);
  call.require(time + batch == 1, "its axes are not 0 and 1");
  const Tensor x = time == 0 ? call.in(0) : call.in(0).transpose(0, 1);  // [steps, batch, ...]
  const Tensor lengths = call.in(1).to(at::kLong);
  const Tensor step = at::arange(x.size(0), lengths.options()).unsqueeze(1);
  Tensor places = at::where(step.lt(lengths), lengths.sub(1).sub(step), step);
  for (int64_t i = 2; i < x.dim(); ++i) places = places.unsqueeze(-1);
  const Tensor reversed = at::gather(x, 0, places.expand_as(x));
  return {time == 0 ? reversed : reversed.transpose(0, 1)};
}

Results einsum(NodeRun& call) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < call.inputs(); ++i) all.push_back(call.in(i));
  return {at::einsum(call.attribute("equation").text, all)};
}

}  // namespace

void add_index_kernels(KernelMap& map) {
  map["Compress"] = {compress, 2};
  map["Einsum"] = {einsum};
  map["Gather"] = {gather, 2};
  map["GatherElements"] = {gather_elements, 2};
  map["GatherND"] = {gather_nd, 2};
  map["NonZero"] = {non_zero};
  map["OneHot"] = {one_hot, 3};
  map["ReverseSequence"] = {reverse_sequence, 2};
  map["Scatter"] = {scatter_elements, 3};
  map["ScatterElements"] = {scatter_elements, 3};
  map["ScatterND"] = {scatter_nd, 3};
}

}  // namespace muster::inline v0_1::onnx::internal

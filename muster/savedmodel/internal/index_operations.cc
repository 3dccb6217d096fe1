// Operations that take parts of a tensor by position.
#include <algorithm>
#include <limits>
#include <numeric>

#include "muster/savedmodel/internal/operations.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

// The axes, and the last of them where `axis` was; the same exchange leads back.
std::vector<int64_t> exchanged_with_last(int64_t rank, int64_t axis) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<size_t>(axis)], axes.back());
  return axes;
}

Attributes strided_attributes(BundleDtype dtype, BundleDtype index, int64_t begin_mask,
                              int64_t end_mask, int64_t shrink_mask) {
  return {{"T", type_value(dtype)},
          {"Index", type_value(index)},
          {"begin_mask", integer_value(begin_mask)},
          {"end_mask", integer_value(end_mask)},
          {"shrink_axis_mask", integer_value(shrink_mask)}};
}

// x[..., i, ...] with one position, which may count from the end.
std::string at_position(Call& call, const std::string& x, int64_t axis, int64_t position) {
  std::vector<int64_t> begin(static_cast<size_t>(axis) + 1, 0), end = begin,
                                                                stride(begin.size(), 1);
  begin.back() = position;
  end.back() = position + 1;
  const int64_t own = int64_t{1} << axis, others = own - 1;
  TensorflowGraph& graph = call.graph();
  return call.add_as(call.dtype(0), "StridedSlice",
                     {x, graph.int32s(begin), graph.int32s(end), graph.int32s(stride)},
                     strided_attributes(call.dtype(0), BundleDtype::kInt32, others,
                                        position == -1 ? others | own : others, own));
}

void gather(Call& call) {
  const int64_t axis = call.axis(0, call.rank(0));
  const std::string x = call.in(0);
  const auto places = call.constant(1);
  if (places && call.rank(1) == 0) return call.give(at_position(call, x, axis, places->at(0)));
  std::string index = call.in(1);
  if (places && std::ranges::any_of(*places, [](int64_t place) { return place < 0; }))
    index = call.add("FloorMod", {index, call.size_at(x, axis)});
  call.give(call.gather(x, index, axis));
}

// The bounds of a slice along one axis: a constant, or a value int64 [1].
struct Bound {
  std::optional<int64_t> number;
  std::string value;
};

std::vector<Bound> bounds(Call& call, size_t place, size_t count) {
  std::vector<Bound> all;
  const auto numbers = call.constant(place);
  for (size_t i = 0; i < count; ++i) {
    if (numbers) {
      all.push_back({numbers->at(i), ""});
    } else {
      const std::string given = call.in(place);
      const auto at = static_cast<int64_t>(i);
      all.push_back({{}, count == 1 ? given : call.gather(given, call.graph().int32s({at}), 0)});
    }
  }
  return all;
}

void slice(Call& call) {
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  std::vector<int64_t> axes;
  if (call.has(3)) {
    axes = call.integers_in(3);
  } else {
    axes.resize(call.shape(1).empty() ? 1 : static_cast<size_t>(call.shape(1)[0]));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = axis < 0 ? axis + call.rank(0) : axis;
  const std::vector<int64_t> steps =
      call.has(4) ? call.integers_in(4) : std::vector<int64_t>(axes.size(), 1);
  const auto starts = bounds(call, 1, axes.size()), ends = bounds(call, 2, axes.size());
  const auto width = static_cast<size_t>(*std::ranges::max_element(axes)) + 1;
  std::vector<Bound> begin(width, Bound{0, ""}), end(width, Bound{0, ""});
  std::vector<int64_t> stride(width, 1);
  int64_t begin_mask = (int64_t{1} << width) - 1, end_mask = begin_mask;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const int64_t own = int64_t{1} << axis;
    stride[axis] = steps[i];
    if (!starts[i].number || std::abs(*starts[i].number) < kFar) {
      begin[axis] = starts[i];
      begin_mask &= ~own;
    }
    if (!ends[i].number || (*ends[i].number<kFar&& * ends[i].number> - kFar)) {
      end[axis] = ends[i];
      end_mask &= ~own;
    }
  }
  const auto is_number = [](const Bound& bound) { return bound.number.has_value(); };
  const bool known = std::ranges::all_of(begin, is_number) && std::ranges::all_of(end, is_number);
  const auto vector_of = [&](const std::vector<Bound>& all) {
    std::vector<int64_t> numbers;
    std::vector<std::string> values;
    for (const Bound& bound : all) {
      numbers.push_back(bound.number.value_or(0));
      values.push_back(bound.number ? call.graph().int64s({*bound.number}) : bound.value);
    }
    return known ? call.graph().int32s(numbers) : call.concatenate(values, 0);
  };
  const std::string from = vector_of(begin), to = vector_of(end);
  const std::string by = known ? call.graph().int32s(stride) : call.graph().int64s(stride);
  call.give(call.add_as(
      call.dtype(0), "StridedSlice", {call.in(0), from, to, by},
      strided_attributes(call.dtype(0), known ? BundleDtype::kInt32 : BundleDtype::kInt64,
                         begin_mask, end_mask, 0)));
}

void gather_elements(Call& call) {
  const int64_t rank = call.rank(0), axis = call.axis(0, rank);
  for (int64_t i = 0; i < rank; ++i) {
    const auto place = static_cast<size_t>(i);
    if (i != axis && call.shape(0)[place] != call.shape(1)[place])
      call.refuse("takes positions from a part of the tensor");
  }
  const std::vector<int64_t> order = exchanged_with_last(rank, axis);
  const std::string x = call.transpose(call.in(0), order);
  const std::string index = call.transpose(call.in(1), order);
  call.give(call.transpose(call.gather(x, index, rank - 1, rank - 1), order));
}

// Positions: [n, axes] in TensorFlow, [axes, n] in ONNX.
std::string positions(Call& call, const std::string& x) {
  return call.add_as(BundleDtype::kInt64, "Where", {x}, {{"T", type_value(call.graph().dtype(x))}});
}

void nonzero(Call& call) { call.give(call.transpose(positions(call, call.in(0)), {1, 0})); }

void compress(Call& call) {
  const int64_t axis = call.axis(0, call.rank(0));
  const std::string places = call.reshape_to(positions(call, call.in(1)), {-1});
  call.give(call.gather(call.in(0), places, axis));
}

// Adds numbers at positions, each a row of `places`. TensorFlow.js has no TensorScatterAdd, and
// TensorFlow Lite no positions of int64.
std::string added_at(Call& call, const std::string& places, const std::string& numbers) {
  const BundleDtype dtype = call.dtype(0), kInt32 = BundleDtype::kInt32;
  const std::string sizes = call.cast(call.shape_of(call.in(0)), kInt32);
  const std::string sums =
      call.add_as(dtype, "ScatterNd", {call.cast(places, kInt32), numbers, sizes},
                  {{"T", type_value(dtype)}, {"Tindices", type_value(kInt32)}});
  return call.add("AddV2", {call.in(0), sums});
}

void scatter(Call& call) {
  if (call.text("reduction", "none") == "add")
    return call.give(added_at(call, call.in(1), call.in(2)));
  call.give(call.add("TensorScatterUpdate", {call.in(0), call.in(1), call.in(2)},
                     {{"Tindices", type_value(call.dtype(1))}}));
}

// Positions of one axis; those of the others are the place of the number.
void scatter_elements(Call& call) {
  if (call.text("reduction", "none") != "add") call.refuse("does not add the numbers");
  const int64_t rank = call.rank(0), axis = call.axis(0, rank);
  const std::string index = call.in(1);
  const std::string every =
      call.add_as(BundleDtype::kBool, "Equal", {index, index}, {{"T", type_value(call.dtype(1))}});
  const std::string places = positions(call, every);
  std::vector<std::string> columns;
  for (int64_t i = 0; i < rank; ++i) {
    columns.push_back(i == axis ? call.reshape_to(call.cast(index, BundleDtype::kInt64), {-1, 1})
                                : call.gather(places, call.graph().int32s({i}), 1));
  }
  call.give(added_at(call, call.concatenate(columns, 1), call.reshape_to(call.in(2), {-1})));
}

void one_hot(Call& call) {
  const int64_t depth = call.integers_in(1).at(0);
  const std::string values = call.in(2);
  const auto value = [&](int64_t place) {
    return call.scalar_of(call.gather(values, call.graph().int32s({place}), 0));
  };
  const BundleDtype dtype = call.dtype(2);
  call.give(call.add_as(dtype, "OneHot",
                        {call.in(0), call.graph().int32(depth), value(1), value(0)},
                        {{"T", type_value(dtype)},
                         {"TI", type_value(call.dtype(0))},
                         {"axis", integer_value(call.integer("axis", -1))}}));
}

}  // namespace

void add_indexing(OperationMap& map) {
  map["Gather"] = gather;
  map["Slice"] = slice;
  map["GatherElements"] = gather_elements;
  map["NonZero"] = nonzero;
  map["Compress"] = compress;
  map["ScatterND"] = scatter;
  map["ScatterElements"] = scatter_elements;
  map["OneHot"] = one_hot;
}

}  // namespace muster::inline v0_1::saved_model::internal

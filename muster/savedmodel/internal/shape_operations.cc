// Operations that change the shape of a tensor, or join and divide tensors, and sizes.
#include <algorithm>
#include <numeric>
#include <optional>

#include "muster/savedmodel/internal/operations.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

bool is_known(const std::vector<int64_t>& shape) {
  return std::ranges::all_of(shape, [](int64_t size) { return size >= 0; });
}

void reshape(Call& call) {
  const std::string x = call.in(0);
  const auto sizes = call.constant(1);
  if (!sizes) return call.give(call.reshape(x, call.in(1)));
  std::vector<int64_t> shape = *sizes;
  int free = 0;
  // 0 keeps a size.
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && i < call.shape(0).size()) shape[i] = call.shape(0)[i];
    free += shape[i] < 0 ? 1 : 0;
  }
  if (free <= 1) return call.give(call.reshape_to(x, shape));
  std::vector<std::string> pieces;
  for (size_t i = 0; i < shape.size(); ++i) {
    pieces.push_back((*sizes)[i] == 0 ? call.size_at(x, static_cast<int64_t>(i))
                                      : call.graph().int64s({shape[i]}));
  }
  call.give(call.reshape(x, call.concatenate(pieces, 0)));
}

void transpose(Call& call) { call.give(call.transpose(call.in(0), call.integers("perm"))); }

void squeeze(Call& call) {
  const int64_t rank = call.rank(0);
  std::vector<int64_t> axes = call.integers_in(1);
  for (int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  call.give(call.add("Squeeze", {call.in(0)}, {{"squeeze_dims", integer_values(axes)}}));
}

void unsqueeze(Call& call) {
  std::vector<int64_t> axes = call.integers_in(1);
  const int64_t rank = call.rank(0) + static_cast<int64_t>(axes.size());
  for (int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::ranges::sort(axes);
  std::string x = call.in(0);
  for (const int64_t axis : axes)
    x = call.add("ExpandDims", {x, call.graph().int32(axis)},
                 {{"Tdim", type_value(BundleDtype::kInt32)}});
  call.give(x);
}

// The sizes from "start" to "end", as a constant if no free axis is among them.
void shape(Call& call) {
  const int64_t rank = call.rank(0);
  const auto bound = [&](int64_t given) {
    return std::clamp<int64_t>(given < 0 ? given + rank : given, 0, rank);
  };
  const int64_t start = bound(call.integer("start", 0)), end = bound(call.integer("end", rank));
  const std::vector<int64_t> sizes(call.shape(0).begin() + start, call.shape(0).begin() + end);
  if (is_known(sizes)) return call.give(call.graph().int64s(sizes));
  const std::string all = call.shape_of(call.in(0));
  if (start == 0 && end == rank) return call.give(all);
  std::vector<int64_t> places(static_cast<size_t>(end - start));
  std::iota(places.begin(), places.end(), start);
  call.give(call.gather(all, call.graph().int32s(places), 0));
}

void concatenate(Call& call) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < call.inputs(); ++i) parts.push_back(call.in(i));
  call.give(call.concatenate(parts, call.axis(0, call.rank(0))));
}

void split(Call& call) {
  const auto sizes = call.integers_in(1);
  const int64_t axis = call.axis(0, call.rank(0));
  const BundleDtype dtype = call.dtype(0);
  const auto parts = call.graph().add_with_outputs(
      "SplitV", {call.in(0), call.graph().int32s(sizes), call.graph().int32(axis)},
      {{"T", type_value(dtype)},
       {"Tlen", type_value(BundleDtype::kInt32)},
       {"num_split", integer_value(static_cast<int64_t>(sizes.size()))}},
      std::vector(sizes.size(), dtype));
  for (size_t i = 0; i < parts.size(); ++i) call.give(parts[i], i);
}

// The sizes of axes of size 1, and 1 for the others: how often each axis is repeated. Nothing if an
// axis after the first has no known size. TensorFlow's BroadcastTo does not take many axes of which
// every second one is repeated.
std::optional<std::string> repeats(Call& call, const std::string& sizes) {
  const std::vector<int64_t>& from = call.shape(0);
  if (from.size() != call.result().shape.size()) return std::nullopt;
  std::vector<int64_t> ones, others;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i > 0 && from[i] < 0) return std::nullopt;
    ones.push_back(from[i] == 1 ? 1 : 0);
    others.push_back(from[i] == 1 ? 0 : 1);
  }
  return call.add(
      "AddV2", {call.add("Mul", {call.cast(sizes, BundleDtype::kInt64), call.graph().int64s(ones)}),
                call.graph().int64s(others)});
}

void expand(Call& call) {
  const std::string x = call.in(0);
  const BundleDtype dtype = call.dtype(0);
  const std::vector<int64_t>& wanted = call.result().shape;
  if (wanted == call.shape(0) && is_known(wanted)) return call.give(x);
  const bool known = is_known(wanted);
  std::string sizes = known ? call.graph().int32s(wanted) : call.in(1);
  if (call.rank(0) == 0) {
    return call.give(call.add_as(
        dtype, "Fill", {sizes, x},
        {{"T", type_value(dtype)}, {"index_type", type_value(call.graph().dtype(sizes))}}));
  }
  constexpr int64_t kManyAxes = 6;
  if (call.rank(0) > kManyAxes) {
    if (const auto counts = repeats(call, sizes)) {
      return call.give(
          call.add("Tile", {x, *counts}, {{"Tmultiples", type_value(BundleDtype::kInt64)}}));
    }
  }
  // A size of 1 leaves an axis as it is.
  if (!known) sizes = call.add("BroadcastArgs", {call.shape_of(x), sizes});
  call.give(call.add("BroadcastTo", {x, sizes}, {{"Tidx", type_value(call.graph().dtype(sizes))}}));
}

void tile(Call& call) {
  const std::string counts = call.in(1);
  call.give(call.add("Tile", {call.in(0), counts},
                     {{"Tmultiples", type_value(call.graph().dtype(counts))}}));
}

// Along one axis: the numbers at the edge are repeated, or there are fewer of them.
std::string edges_repeated(Call& call, std::string x, const std::vector<int64_t>& pads) {
  const size_t rank = pads.size() / 2;
  for (size_t i = 0; i < rank; ++i) {
    if (pads[i] == 0 && pads[rank + i] == 0) continue;
    const auto axis = static_cast<int64_t>(i);
    const std::string size = call.scalar_of(call.size_at(x, axis));
    TensorflowGraph& graph = call.graph();
    const std::string end = call.add(
        "AddV2", {size, graph.scalar(static_cast<double>(pads[rank + i]), BundleDtype::kInt64)});
    const std::string places =
        call.add_as(BundleDtype::kInt64, "Range",
                    {graph.scalar(static_cast<double>(-pads[i]), BundleDtype::kInt64), end,
                     graph.scalar(1, BundleDtype::kInt64)},
                    {{"Tidx", type_value(BundleDtype::kInt64)}});
    const std::string last = call.add("Sub", {size, graph.scalar(1, BundleDtype::kInt64)});
    const std::string inside = call.add(
        "Minimum", {call.add("Maximum", {places, graph.scalar(0, BundleDtype::kInt64)}), last});
    x = call.gather(x, inside, axis);
  }
  return x;
}

void pad(Call& call) {
  const std::string mode = call.text("mode", "constant");
  const int64_t rank = call.rank(0);
  std::string x = call.in(0);
  const auto pads = call.constant(1);
  if (mode == "edge") {
    if (!pads) call.refuse("repeats the edge by a number that depends on the inputs");
    return call.give(edges_repeated(call, x, *pads));
  }
  // [2 axes] to [axes, 2].
  std::string paddings;
  if (pads) {
    if (std::ranges::any_of(*pads, [](int64_t each) { return each < 0; })) {
      if (mode != "constant") call.refuse("takes away from a tensor that it reflects");
      std::vector<int64_t> begin, size_change, shrink(static_cast<size_t>(rank));
      for (int64_t i = 0; i < rank; ++i) {
        const int64_t before = std::max<int64_t>(0, -(*pads)[static_cast<size_t>(i)]);
        const int64_t after = std::max<int64_t>(0, -(*pads)[static_cast<size_t>(rank + i)]);
        begin.push_back(before);
        size_change.push_back(before + after);
      }
      const std::string sizes =
          call.add("Sub", {call.shape_of(x), call.graph().int64s(size_change)});
      x = call.add("Slice", {x, call.graph().int64s(begin), sizes},
                   {{"Index", type_value(BundleDtype::kInt64)}});
    }
    std::vector<int64_t> pairs;
    for (int64_t i = 0; i < rank; ++i) {
      pairs.push_back(std::max<int64_t>(0, (*pads)[static_cast<size_t>(i)]));
      pairs.push_back(std::max<int64_t>(0, (*pads)[static_cast<size_t>(rank + i)]));
    }
    paddings = call.reshape_to(call.graph().int32s(pairs), {rank, 2});
  } else {
    paddings = call.transpose(call.reshape_to(call.in(1), {2, rank}), {1, 0});
  }
  const Attributes more = {{"Tpaddings", type_value(call.graph().dtype(paddings))}};
  if (mode == "reflect") {
    Attributes with_mode = more;
    with_mode.emplace_back("mode", text_value("REFLECT"));
    return call.give(call.add("MirrorPad", {x, paddings}, with_mode));
  }
  call.give(
      call.add("PadV2", {x, paddings, call.has(2) ? call.in(2) : call.number_like(x, 0)}, more));
}

// The part at and above a diagonal, or at and below it, by a mask: the rest may have infinities.
void triangle(Call& call) {
  const bool upper = call.integer("upper", 1) != 0;
  const auto given = call.constant(1);
  if (call.has(1) && !given) call.refuse("has a diagonal that depends on the inputs");
  const int64_t diagonal = given ? given->at(0) : 0;
  const std::string x = call.in(0), ones = call.add("OnesLike", {x});
  // How many diagonals below and above the main one stay, -1 for all of them.
  const auto band = [&](int64_t below, int64_t above) {
    return call.add("MatrixBandPart",
                    {ones, call.graph().scalar(static_cast<double>(below), BundleDtype::kInt64),
                     call.graph().scalar(static_cast<double>(above), BundleDtype::kInt64)},
                    {{"Tindex", type_value(BundleDtype::kInt64)}});
  };
  const bool direct = upper ? diagonal <= 0 : diagonal >= 0;
  const std::string mask = !direct && upper ? band(-1, diagonal - 1)
                           : !direct        ? band(-diagonal - 1, -1)
                           : upper          ? band(-diagonal, -1)
                                            : band(-1, diagonal);
  const std::string kept =
      call.add_as(BundleDtype::kBool, direct ? "NotEqual" : "Equal", {mask, call.number_like(x, 0)},
                  {{"T", type_value(call.dtype(0))}});
  call.give(call.choose(kept, x, call.number_like(x, 0)));
}

void range(Call& call) {
  call.give(call.add_as(call.dtype(0), "Range", {call.in(0), call.in(1), call.in(2)},
                        {{"Tidx", type_value(call.dtype(0))}}));
}

}  // namespace

void add_shapes(OperationMap& map) {
  map["Reshape"] = reshape;
  map["Transpose"] = transpose;
  map["Squeeze"] = squeeze;
  map["Unsqueeze"] = unsqueeze;
  map["Shape"] = shape;
  map["Concat"] = concatenate;
  map["Split"] = split;
  map["Expand"] = expand;
  map["Tile"] = tile;
  map["Pad"] = pad;
  map["Trilu"] = triangle;
  map["Range"] = range;
}

}  // namespace muster::inline v0_1::saved_model::internal

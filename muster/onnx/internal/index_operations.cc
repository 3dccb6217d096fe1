// Operations that take parts of a tensor by position.
#include <algorithm>
#include <limits>

#include "muster/onnx/internal/operations.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

void select(Call& call) {
  const int64_t axis = call.axis("dim", call.rank("self"));
  call.give(call.add("Gather", {call.in("self"), call.in("index", at::kLong)}, {{"axis", axis}}));
}

void slice(Call& call) {
  const int64_t axis = call.axis("dim", call.rank("self"));
  const std::string start = call.has("start") ? call.size_of("start") : call.writer().integers({0});
  const std::string end = call.has("end")
                              ? call.size_of("end")
                              : call.writer().integers({std::numeric_limits<int64_t>::max()});
  call.give(
      call.add("Slice", {call.in("self"), start, end, call.writer().integers({axis}),
                         call.has("step") ? call.size_of("step") : call.writer().integers({1})}));
}

void narrow(Call& call) {
  const int64_t axis = call.axis("dim", call.rank("self"));
  const std::string start = call.size_of("start");
  const std::string end = call.add("Add", {start, call.size_of("length")});
  call.give(call.add("Slice", {call.in("self"), start, end, call.writer().integers({axis})}));
}

void flip(Call& call) {
  const std::vector<int64_t> axes = call.axes("dims", call.rank("self"));
  const auto repeated = [&](int64_t value) {
    return call.writer().integers(std::vector<int64_t>(axes.size(), value));
  };
  if (axes.empty()) return call.give(call.in("self"));
  call.give(call.add("Slice",
                     {call.in("self"), repeated(-1), repeated(std::numeric_limits<int64_t>::min()),
                      call.writer().integers(axes), repeated(-1)}));
}

void index_select(Call& call) {
  const int64_t axis = call.axis("dim", call.rank("self"));
  call.give(call.add("Gather", {call.in("self"), call.in("index", at::kLong)}, {{"axis", axis}}));
}

void embedding(Call& call) {
  call.give(call.add("Gather", {call.in("weight"), call.in("indices", at::kLong)},
                     {{"axis", int64_t{0}}}));
}

void gather(Call& call) {
  const int64_t axis = call.axis("dim", call.rank("self"));
  call.give(
      call.add("GatherElements", {call.in("self"), call.in("index", at::kLong)}, {{"axis", axis}}));
}

// An index counts the numbers of the whole tensor.
void take(Call& call) {
  const std::string flat = call.add("Reshape", {call.in("self"), call.writer().integers({-1})});
  call.give(call.add("Gather", {flat, call.in("index", at::kLong)}, {{"axis", int64_t{0}}}));
}

// x[:, i]: one tensor of positions on one axis.
void index(Call& call) {
  const auto given = call.optional_list("indices");
  const auto count = std::ranges::count_if(given, [](const auto& each) { return !each.empty(); });
  if (count != 1) call.refuse("takes positions on several axes at once");
  for (size_t axis = 0; axis < given.size(); ++axis) {
    if (given[axis].empty()) continue;
    call.give(
        call.add("Gather", {call.in("self"), given[axis]}, {{"axis", static_cast<int64_t>(axis)}}));
  }
}

// Positions: [n, axes], which ONNX gives as [axes, n].
void positions(Call& call) {
  call.give(call.add("Transpose", {call.add("NonZero", {call.in("self")})},
                     {{"perm", std::vector<int64_t>{1, 0}}}));
}

void masked_select(Call& call) {
  if (call.form("self").sizes() != call.form("mask").sizes())
    call.refuse("has a mask of another shape");
  const std::string flat = call.writer().integers({-1});
  call.give(call.add("Compress",
                     {call.add("Reshape", {call.in("self"), flat}),
                      call.add("Reshape", {call.in("mask", at::kBool), flat})},
                     {{"axis", int64_t{0}}}));
}

// Adds rows to rows; an index may occur several times.
void add_rows(Call& call) {
  if (call.axis("dim", call.rank("self")) != 0)
    call.refuse("adds along another axis than the first");
  if (call.number_or("alpha", 1) != 1) call.refuse("has a factor");
  const DType dtype = call.result_dtype();
  const std::string index =
      call.add("Unsqueeze", {call.in("index", at::kLong), call.writer().integers({-1})});
  call.give(call.add("ScatterND", {call.in("self", dtype), index, call.in("source", dtype)},
                     {{"reduction", std::string("add")}}));
}

// Adds numbers to those at positions of one axis, each in its own place of the other axes.
void scatter_add(Call& call) {
  if (call.form("index").sizes() != call.form("src").sizes())
    call.refuse("has more numbers than positions");
  const int64_t axis = call.axis("dim", call.rank("self"));
  call.give(call.add("ScatterElements",
                     {call.in("self"), call.in("index", at::kLong), call.in("src")},
                     {{"axis", axis}, {"reduction", std::string("add")}}));
}

// The number of boundaries below a number. NaN is above all of them.
void find_bucket(Call& call) {
  const DType dtype = at::promote_types(call.dtype("self"), call.dtype("boundaries"));
  const std::string x =
      call.add("Unsqueeze", {call.in("self", dtype), call.writer().integers({-1})});
  const std::string above = call.add(call.flag("right") ? "Greater" : "GreaterOrEqual",
                                     {call.in("boundaries", dtype), x});
  const DType counted = call.result_dtype();
  const std::string below = call.cast(call.add("Not", {above}), at::kBool, counted);
  call.give(
      call.add("ReduceSum", {below, call.writer().integers({-1})}, {{"keepdims", int64_t{0}}}));
}

void one_hot(Call& call) {
  const int64_t classes = call.integer("num_classes");
  if (classes < 0) call.refuse("needs the number of classes");
  call.give(
      call.add("OneHot",
               {call.in("self"), call.writer().integers({classes}), call.writer().integers({0, 1})},
               {{"axis", int64_t{-1}}}));
}

}  // namespace

void add_indexing(OperationMap& map) {
  map["aten::select"] = select;
  map["aten::slice"] = slice;
  map["aten::narrow"] = narrow;
  map["aten::flip"] = flip;
  map["aten::index_select"] = index_select;
  map["aten::embedding"] = embedding;
  map["aten::gather"] = gather;
  map["aten::take"] = take;
  map["aten::index"] = index;
  map["aten::one_hot"] = one_hot;
  map["aten::nonzero"] = positions;
  map["aten::masked_select"] = masked_select;
  map["aten::index_add"] = add_rows;
  map["aten::scatter_add"] = scatter_add;
  map["aten::bucketize"] = find_bucket;
}

}  // namespace muster::inline v0_1::onnx::internal

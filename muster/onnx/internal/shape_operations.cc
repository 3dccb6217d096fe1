// Operations that change the shape of a tensor, or join and divide tensors.
#include <algorithm>
#include <limits>
#include <numeric>

#include "muster/onnx/internal/operations.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

void reshape(Call& call) {
  const char* sizes = call.has("shape") ? "shape" : "size";
  if (!call.has(sizes)) call.refuse("changes the dtype of the bytes");
  call.give(call.add("Reshape", {call.in("self"), call.sizes_of(sizes)}));
}

// The sizes of the axes from `first` to `last`, without it.
std::string sizes_between(Call& call, const std::string& tensor, int64_t first, int64_t last) {
  return call.add("Shape", {tensor}, {{"start", first}, {"end", last}});
}

void flatten(Call& call) {
  const std::string x = call.in("self");
  const int64_t rank = call.rank("self");
  if (rank == 0) return call.give(call.add("Reshape", {x, call.writer().integers({1})}));
  const int64_t first = call.axis("start_dim", rank), last = call.axis("end_dim", rank);
  std::vector<std::string> sizes;
  if (first > 0) sizes.push_back(sizes_between(call, x, 0, first));
  sizes.push_back(call.writer().integers({-1}));
  if (last + 1 < rank) sizes.push_back(sizes_between(call, x, last + 1, rank));
  int free = 0;
  for (int64_t axis = 0; axis < call.result().dim(); ++axis) free += call.is_fixed(0, axis) ? 0 : 1;
  // One free axis needs no sizes of the tensor.
  if (free <= 1) return call.give(call.reshape_to_result(x));
  call.give(call.add("Reshape", {x, call.join_sizes(sizes)}));
}

void unflatten(Call& call) {
  const std::string x = call.in("self");
  const int64_t rank = call.rank("self"), axis = call.axis("dim", rank);
  std::vector<std::string> sizes;
  if (axis > 0) sizes.push_back(sizes_between(call, x, 0, axis));
  sizes.push_back(call.sizes_of("sizes"));
  if (axis + 1 < rank) sizes.push_back(sizes_between(call, x, axis + 1, rank));
  call.give(call.add("Reshape", {x, call.join_sizes(sizes)}));
}

void squeeze(Call& call) {
  const std::string x = call.in("self");
  const Tensor form = call.form("self");
  std::vector<int64_t> axes = call.axes("dim", form.dim());
  if (!call.has("dim")) {
    axes.resize(static_cast<size_t>(form.dim()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::erase_if(axes, [&](int64_t axis) { return form.size(axis) != 1; });
  if (axes.empty()) return call.give(x);
  call.give(call.add("Squeeze", {x, call.writer().integers(axes)}));
}

void unsqueeze(Call& call) {
  const int64_t axis = call.axis("dim", call.rank("self") + 1);
  call.give(call.add("Unsqueeze", {call.in("self"), call.writer().integers({axis})}));
}

std::string permuted(Call& call, const std::string& tensor, const std::vector<int64_t>& axes) {
  if (std::ranges::is_sorted(axes)) return tensor;
  return call.add("Transpose", {tensor}, {{"perm", axes}});
}

std::vector<int64_t> all_axes(int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

void permute(Call& call) {
  call.give(permuted(call, call.in("self"), call.axes("dims", call.rank("self"))));
}

void transpose(Call& call) {
  const int64_t rank = call.rank("self");
  std::vector<int64_t> axes = all_axes(rank);
  const bool named = call.has("dim0");
  const int64_t a = named ? call.axis("dim0", rank) : 0, b = named ? call.axis("dim1", rank) : 1;
  if (rank >= 2) std::swap(axes[static_cast<size_t>(a)], axes[static_cast<size_t>(b)]);
  call.give(permuted(call, call.in("self"), axes));
}

void move_axes(Call& call) {
  const int64_t rank = call.rank("self");
  const std::vector<int64_t> from = call.axes("source", rank), to = call.axes("destination", rank);
  std::vector<int64_t> axes(static_cast<size_t>(rank), -1);
  for (size_t i = 0; i < from.size(); ++i) axes[static_cast<size_t>(to[i])] = from[i];
  std::vector<int64_t> others = all_axes(rank);
  std::erase_if(others, [&](int64_t axis) { return std::ranges::count(from, axis) > 0; });
  auto next = others.begin();
  for (int64_t& axis : axes) axis = axis < 0 ? *next++ : axis;
  call.give(permuted(call, call.in("self"), axes));
}

void expand(Call& call) {
  // A size of -1 leaves an axis as it is; so does 1 in ONNX.
  const std::string sizes = call.sizes_of("size"), one = call.writer().integers({1});
  call.give(call.add("Expand", {call.in("self"), call.add("Max", {sizes, one})}));
}

void expand_as(Call& call) {
  call.give(call.add("Expand", {call.in("self"), call.add("Shape", {call.in("other")})}));
}

void repeat(Call& call) {
  std::string x = call.in("self");
  const int64_t rank = call.rank("self"), wanted = call.result().dim();
  if (rank < wanted) {
    std::vector<int64_t> axes = all_axes(wanted - rank);
    x = call.add("Unsqueeze", {x, call.writer().integers(axes)});
  }
  call.give(call.add("Tile", {x, call.sizes_of("repeats")}));
}

void concatenate(Call& call) {
  const DType dtype = call.result_dtype();
  call.give(call.add("Concat", call.list("tensors", dtype),
                     {{"axis", call.axis("dim", call.result().dim())}}));
}

void stack(Call& call) {
  const int64_t axis = call.axis("dim", call.result().dim());
  std::vector<std::string> rows;
  for (const std::string& each : call.list("tensors", call.result_dtype()))
    rows.push_back(call.add("Unsqueeze", {each, call.writer().integers({axis})}));
  call.give(call.add("Concat", rows, {{"axis", axis}}));
}

// The sizes of the parts of a list that is the result.
std::vector<int64_t> part_sizes(const Call& call, int64_t axis) {
  std::vector<int64_t> sizes;
  for (const Tensor& part : call.results()) sizes.push_back(part.size(axis));
  return sizes;
}

void divide_axis(Call& call) {
  const int64_t axis = call.axis("dim", call.rank("self"));
  const std::vector<int64_t> sizes = part_sizes(call, axis);
  if (sizes.size() == 1) return call.give(std::vector{call.in("self")});
  if (!call.same_results(axis)) call.refuse("divides a free axis");
  call.give(call.writer().add_with_outputs(
      "Split", {call.in("self"), call.writer().integers(sizes)}, {{"axis", axis}}, sizes.size()));
}

void unbind(Call& call) {
  const int64_t axis = call.axis("dim", call.rank("self"));
  const std::string x = call.in("self");
  std::vector<std::string> parts;
  for (size_t i = 0; i < call.results().size(); ++i)
    parts.push_back(call.add("Gather", {x, call.writer().scalar(static_cast<double>(i), at::kLong)},
                             {{"axis", axis}}));
  call.give(parts);
}

void pad(Call& call) {
  const std::string mode = call.has("mode") ? call.text("mode") : "constant";
  static const std::map<std::string, std::string> kModes = {
      {"constant", "constant"}, {"reflect", "reflect"}, {"replicate", "edge"}};
  if (!kModes.contains(mode)) call.refuse("pads by the mode " + mode);
  // LibTorch: the last axis first, begin and end of each.
  const auto rank = static_cast<size_t>(call.rank("self"));
  const auto in_order = [rank](const auto& given, const auto& zero) {
    std::vector pads(2 * rank, zero);
    for (size_t i = 0; i < given.size() / 2; ++i) {
      pads[rank - 1 - i] = given[2 * i];
      pads[2 * rank - 1 - i] = given[2 * i + 1];
    }
    return pads;
  };
  const std::string pads =
      call.is_constant("pad")
          ? call.writer().integers(in_order(call.integers("pad"), int64_t{0}))
          : call.join_sizes(in_order(call.size_list("pad"), call.writer().integers({0})));
  const DType dtype = call.result_dtype();
  const std::string value =
      call.has("value") ? call.in("value", dtype) : call.writer().scalar(0, dtype);
  call.give(call.add("Pad", {call.in("self"), pads, value}, {{"mode", kModes.at(mode)}}));
}

void triangle(Call& call) {
  const DType dtype = call.result_dtype();
  // onnxruntime has it for numbers, not for bool.
  const DType computed = dtype == at::kBool ? at::kLong : dtype;
  const std::string y = call.add("Trilu", {call.in("self", computed), call.size_of("diagonal")},
                                 {{"upper", int64_t{call.operation() == "aten::triu" ? 1 : 0}}});
  call.give(call.cast(y, computed, dtype));
}

}  // namespace

void add_shapes(OperationMap& map) {
  map["aten::view"] = reshape;
  map["aten::reshape"] = reshape;
  map["aten::_unsafe_view"] = reshape;
  map["aten::flatten"] = flatten;
  map["aten::unflatten"] = unflatten;
  map["aten::squeeze"] = squeeze;
  map["aten::unsqueeze"] = unsqueeze;
  map["aten::permute"] = permute;
  map["aten::transpose"] = transpose;
  map["aten::t"] = transpose;
  map["aten::numpy_T"] = transpose;
  map["aten::movedim"] = move_axes;
  map["aten::expand"] = expand;
  map["aten::expand_as"] = expand_as;
  map["aten::repeat"] = repeat;
  map["aten::cat"] = concatenate;
  map["aten::concat"] = concatenate;
  map["aten::stack"] = stack;
  for (const char* name : {"chunk", "split", "split_with_sizes", "tensor_split"})
    map[std::string("aten::") + name] = divide_axis;
  map["aten::unbind"] = unbind;
  map["aten::constant_pad_nd"] = pad;
  map["aten::pad"] = pad;
  map["aten::tril"] = triangle;
  map["aten::triu"] = triangle;
}

}  // namespace muster::inline v0_1::onnx::internal

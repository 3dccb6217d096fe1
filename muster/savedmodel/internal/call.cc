#include "muster/savedmodel/internal/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "muster/base/error.h"
#include "muster/savedmodel/internal/dtypes.h"

namespace muster::inline v0_1::saved_model::internal {

std::vector<int64_t> integers_of(const ::onnx::TensorProto& tensor) {
  const std::string& bytes = tensor.raw_data();
  const auto all = [&]<typename Number>(Number) {
    std::vector<Number> numbers(bytes.size() / sizeof(Number));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
    return std::vector<int64_t>(numbers.begin(), numbers.end());
  };
  return tensor.data_type() == ::onnx::TensorProto::INT32 ? all(int32_t{}) : all(int64_t{});
}

Call::Call(const ::onnx::NodeProto& node, TensorflowGraph& graph, KnownValues& known)
    : node_(node), graph_(graph), known_(known) {
  const size_t slash = node.name().rfind('/');
  graph_.set_label(slash == std::string::npos ? "" : node.name().substr(0, slash));
}

bool Call::has(size_t place) const {
  return place < inputs() && !node_.input(static_cast<int>(place)).empty();
}

const ValueForm& Call::form(size_t place) const {
  if (!has(place)) refuse(fmt::format("lacks its argument {}", place));
  const auto found = known_.forms.find(node_.input(static_cast<int>(place)));
  if (found == known_.forms.end()) refuse("takes a value of unknown shape");
  return found->second;
}

std::string Call::in(size_t place) {
  if (!has(place)) refuse(fmt::format("lacks its argument {}", place));
  const std::string& name = node_.input(static_cast<int>(place));
  if (const auto found = known_.names.find(name); found != known_.names.end()) return found->second;
  if (const auto found = known_.reordered.find(name); found != known_.reordered.end()) {
    const auto [value, back] = found->second;
    return known_.names[name] = transpose(value, back);
  }
  const auto constant = known_.constants.find(name);
  if (constant == known_.constants.end()) refuse(fmt::format("takes the unknown value {}", name));
  const ::onnx::TensorProto& tensor = *constant->second;
  if (known_.weights.contains(name)) {
    std::vector<int64_t> axes(static_cast<size_t>(tensor.dims_size()));
    std::iota(axes.begin(), axes.end(), 0);
    return known_.names[name] = add_variable(tensor, axes);
  }
  return graph_.constant(tensorflow_dtype(tensor.data_type()),
                         {tensor.dims().begin(), tensor.dims().end()}, tensor.raw_data());
}

std::string Call::in_order(size_t place, const std::vector<int64_t>& axes) {
  const std::string& name = node_.input(static_cast<int>(place));
  if (!known_.weights.contains(name) || known_.names.contains(name) ||
      known_.reordered.contains(name))
    return transpose(in(place), axes);
  const std::string ordered = add_variable(*known_.constants.at(name), axes);
  std::vector<int64_t> back(axes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    back[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  known_.reordered[name] = {ordered, back};
  return ordered;
}

std::string Call::add_variable(const ::onnx::TensorProto& tensor,
                               const std::vector<int64_t>& axes) {
  GraphVariable variable{"", tensorflow_dtype(tensor.data_type()), {}, &tensor, ""};
  for (const int64_t axis : axes) variable.shape.push_back(tensor.dims(static_cast<int>(axis)));
  if (!std::ranges::is_sorted(axes)) {
    variable.in_other_order =
        bytes_in_order(tensor.raw_data(), {tensor.dims().begin(), tensor.dims().end()}, axes);
  }
  variable.name = graph_.add_outside(tensor.name(), "VarHandleOp", {},
                                     {{"dtype", type_value(variable.dtype)},
                                      {"shape", shape_value(variable.shape)},
                                      {"container", text_value("")},
                                      {"shared_name", text_value(tensor.name())}},
                                     {kResource});
  const std::string read =
      graph_.add_outside(variable.name + "/Read/ReadVariableOp", "ReadVariableOp", {variable.name},
                         {{"dtype", type_value(variable.dtype)}}, {variable.dtype});
  known_.variables.push_back(std::move(variable));
  return read;
}

const ValueForm& Call::result(size_t place) const {
  const auto found = known_.forms.find(node_.output(static_cast<int>(place)));
  if (found == known_.forms.end()) refuse("has a result of unknown shape");
  return found->second;
}

std::optional<std::vector<int64_t>> Call::constant(size_t place) const {
  if (!has(place)) return std::nullopt;
  const auto found = known_.constants.find(node_.input(static_cast<int>(place)));
  if (found == known_.constants.end() ||
      (found->second->data_type() != ::onnx::TensorProto::INT64 &&
       found->second->data_type() != ::onnx::TensorProto::INT32))
    return std::nullopt;
  return integers_of(*found->second);
}

std::vector<int64_t> Call::integers_in(size_t place) const {
  const auto found = constant(place);
  if (!found) refuse(fmt::format("has the argument {}, which depends on the inputs", place));
  return *found;
}

const ::onnx::AttributeProto* Call::attribute(const char* name) const {
  for (const auto& each : node_.attribute()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

int64_t Call::integer(const char* name, int64_t otherwise) const {
  const auto* found = attribute(name);
  return found == nullptr ? otherwise : found->i();
}

std::vector<int64_t> Call::integers(const char* name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}

double Call::number(const char* name, double otherwise) const {
  const auto* found = attribute(name);
  return found == nullptr ? otherwise : static_cast<double>(found->f());
}

std::string Call::text(const char* name, const std::string& otherwise) const {
  const auto* found = attribute(name);
  return found == nullptr ? otherwise : found->s();
}

int64_t Call::axis(int64_t otherwise, int64_t rank) const {
  const int64_t given = integer("axis", otherwise);
  return given < 0 ? given + rank : given;
}

std::string Call::add(const std::string& operation, const std::vector<std::string>& inputs,
                      const Attributes& more) {
  const BundleDtype dtype = graph_.dtype(inputs.at(0));
  Attributes attributes = {{"T", type_value(dtype)}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return graph_.add(operation, inputs, attributes, dtype);
}

std::string Call::add_as(BundleDtype result, const std::string& operation,
                         const std::vector<std::string>& inputs, const Attributes& attributes) {
  return graph_.add(operation, inputs, attributes, result);
}

std::string Call::cast(const std::string& value, BundleDtype dtype) {
  const BundleDtype from = graph_.dtype(value);
  if (from == dtype) return value;
  return add_as(dtype, "Cast", {value}, {{"SrcT", type_value(from)}, {"DstT", type_value(dtype)}});
}

std::string Call::reshape(const std::string& value, const std::string& shape) {
  return add("Reshape", {value, shape}, {{"Tshape", type_value(graph_.dtype(shape))}});
}

std::string Call::reshape_to(const std::string& value, const std::vector<int64_t>& shape) {
  return reshape(value, graph_.int32s(shape));
}

std::string Call::transpose(const std::string& value, const std::vector<int64_t>& axes) {
  std::string source = value;
  std::vector<int64_t> all = axes;
  if (const auto before = known_.transposes.find(value); before != known_.transposes.end()) {
    source = before->second.first;
    for (int64_t& axis : all) axis = before->second.second[static_cast<size_t>(axis)];
  }
  if (std::ranges::is_sorted(all)) return source;
  const std::string result =
      add("Transpose", {source, graph_.int32s(all)}, {{"Tperm", type_value(BundleDtype::kInt32)}});
  known_.transposes[result] = {source, all};
  return result;
}

std::string Call::reduce(const std::string& operation, const std::string& value,
                         const std::vector<int64_t>& axes, bool keep) {
  Attributes attributes = {{"keep_dims", flag_value(keep)},
                           {"Tidx", type_value(BundleDtype::kInt32)}};
  const std::string over = graph_.int32s(axes);
  if (operation == "All" || operation == "Any")
    return add_as(BundleDtype::kBool, operation, {value, over}, attributes);
  return add(operation, {value, over}, attributes);
}

std::string Call::choose(const std::string& condition, const std::string& yes,
                         const std::string& no) {
  const BundleDtype dtype = graph_.dtype(yes);
  return add_as(dtype, "SelectV2", {condition, yes, no}, {{"T", type_value(dtype)}});
}

std::string Call::gather(const std::string& value, const std::string& index, int64_t axis,
                         int64_t batch_axes) {
  const BundleDtype dtype = graph_.dtype(value);
  return add_as(dtype, "GatherV2", {value, index, graph_.int32(axis)},
                {{"Tparams", type_value(dtype)},
                 {"Tindices", type_value(graph_.dtype(index))},
                 {"Taxis", type_value(BundleDtype::kInt32)},
                 {"batch_dims", integer_value(batch_axes)}});
}

std::string Call::concatenate(const std::vector<std::string>& values, int64_t axis) {
  if (values.size() == 1) return values.front();
  std::vector<std::string> inputs = values;
  inputs.push_back(graph_.int32(axis));
  return add("ConcatV2", inputs,
             {{"N", integer_value(static_cast<int64_t>(values.size()))},
              {"Tidx", type_value(BundleDtype::kInt32)}});
}

std::string Call::shape_of(const std::string& value) {
  return add_as(
      BundleDtype::kInt64, "Shape", {value},
      {{"T", type_value(graph_.dtype(value))}, {"out_type", type_value(BundleDtype::kInt64)}});
}

std::string Call::size_at(const std::string& value, int64_t axis) {
  return gather(shape_of(value), graph_.int32s({axis}), 0);
}

void Call::give(const std::string& name, size_t place) {
  known_.names[node_.output(static_cast<int>(place))] = name;
}

void Call::refuse(const std::string& what) const {
  throw invalid_argument(
      fmt::format("not supported: SavedModel: the operation {} at \"{}\" {}", node_.op_type(),
                  node_.name(), what),
      "export the model as ONNX or TorchScript, or compute this with other operations");
}

}  // namespace muster::inline v0_1::saved_model::internal

#include "muster/onnx/internal/graph_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using ::onnx::AttributeProto;

// Fills `proto` with the numbers of the tensor, in ONNX's order: little-endian, row-major.
void set_tensor(::onnx::TensorProto& proto, const Tensor& value) {
  const Tensor dense = value.detach().contiguous();
  proto.set_data_type(onnx_dtype(dense.scalar_type()));
  for (const int64_t size : dense.sizes()) proto.add_dims(size);
  proto.set_raw_data(dense.data_ptr(), static_cast<size_t>(dense.nbytes()));
}

void set_attribute(AttributeProto& proto, const Attribute& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    proto.set_type(AttributeProto::INT);
    proto.set_i(*whole);
  } else if (const auto* number = std::get_if<double>(&value)) {
    proto.set_type(AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(*number));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    proto.set_type(AttributeProto::STRING);
    proto.set_s(*text);
  } else if (const auto* wholes = std::get_if<std::vector<int64_t>>(&value)) {
    proto.set_type(AttributeProto::INTS);
    for (const int64_t each : *wholes) proto.add_ints(each);
  } else if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    proto.set_type(AttributeProto::FLOATS);
    for (const double each : *numbers) proto.add_floats(static_cast<float>(each));
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    proto.set_type(AttributeProto::STRINGS);
    for (const std::string& each : *texts) proto.add_strings(each);
  } else if (const auto* graph = std::get_if<::onnx::GraphProto>(&value)) {
    proto.set_type(AttributeProto::GRAPH);
    *proto.mutable_g() = *graph;
  } else {
    proto.set_type(AttributeProto::TENSOR);
    set_tensor(*proto.mutable_t(), std::get<Tensor>(value));
  }
}

void set_type(::onnx::ValueInfoProto& info, const std::string& name, DType dtype,
              const Shape& shape, const std::vector<std::string>& axes) {
  info.set_name(name);
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx_dtype(dtype));
  auto* dims = tensor->mutable_shape();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 0)
      dims->add_dim()->set_dim_param(axes.at(axis));
    else
      dims->add_dim()->set_dim_value(shape[axis]);
  }
}

// The names of values that the nodes use, those in bodies too.
void for_names(::onnx::GraphProto& graph, const std::function<void(std::string&)>& use) {
  for (auto& output : *graph.mutable_output()) use(*output.mutable_name());
  for (auto& node : *graph.mutable_node()) {
    for (std::string& name : *node.mutable_input()) use(name);
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) for_names(*attribute.mutable_g(), use);
    }
  }
}

bool same_form(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

}  // namespace

::onnx::TensorProto_DataType onnx_dtype(DType dtype) {
  using ::onnx::TensorProto;
  switch (dtype) {
    case at::kFloat:
      return TensorProto::FLOAT;
    case at::kDouble:
      return TensorProto::DOUBLE;
    case at::kHalf:
      return TensorProto::FLOAT16;
    case at::kBFloat16:
      return TensorProto::BFLOAT16;
    case at::kLong:
      return TensorProto::INT64;
    case at::kInt:
      return TensorProto::INT32;
    case at::kShort:
      return TensorProto::INT16;
    case at::kChar:
      return TensorProto::INT8;
    case at::kByte:
      return TensorProto::UINT8;
    case at::kBool:
      return TensorProto::BOOL;
    default:
      throw invalid_argument(
          fmt::format("not supported: ONNX: a tensor of dtype {}", dtype_name(dtype)),
          "ONNX has floats, integers and bool");
  }
}

std::string GraphWriter::unused(const std::string& wanted) {
  if (taken_.insert(wanted).second) return wanted;
  int& number = numbers_[wanted];
  while (true) {
    const std::string name = fmt::format("{}_{}", wanted, ++number);
    if (taken_.insert(name).second) return name;
  }
}

std::string GraphWriter::add(const std::string& operation, const std::vector<std::string>& inputs,
                             const Attributes& attributes) {
  return add_with_outputs(operation, inputs, attributes, 1).front();
}

std::vector<std::string> GraphWriter::add_with_outputs(const std::string& operation,
                                                       const std::vector<std::string>& inputs,
                                                       const Attributes& attributes, size_t outputs,
                                                       const std::string& domain) {
  ::onnx::NodeProto& node = *(bodies_.empty() ? graph_ : bodies_.back()).add_node();
  const std::string name = unused(label_.empty() ? operation : label_ + "/" + operation);
  node.set_name(name);
  node.set_op_type(operation);
  if (!domain.empty()) {
    node.set_domain(domain);
    has_ml_ = true;
  }
  for (const std::string& input : inputs) node.add_input(input);
  for (const auto& [key, value] : attributes) {
    AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    set_attribute(attribute, value);
  }
  std::vector<std::string> results;
  for (size_t i = 0; i < outputs; ++i) {
    results.push_back(outputs == 1 ? name : unused(fmt::format("{}:{}", name, i)));
    node.add_output(results.back());
  }
  return results;
}

std::string GraphWriter::constant(const Tensor& value, const std::string& wanted) {
  auto& there = constants_[value.numel() == 0 ? nullptr : value.data_ptr()];
  for (const auto& [tensor, name] : there) {
    if (same_form(tensor, value)) return name;
  }
  if (value.dim() == 2 && value.size(0) > 1 && value.size(1) > 1) {
    for (const auto& [tensor, name] : there) {
      if (tensor.dim() == 2 && same_form(tensor.t(), value))
        return add("Transpose", {name}, {{"perm", std::vector<int64_t>{1, 0}}});
    }
  }
  const std::string base = label_.empty() ? "constant" : label_ + "/constant";
  const std::string name = unused(wanted.empty() ? base : wanted);
  ::onnx::TensorProto& proto = *graph_.add_initializer();
  proto.set_name(name);
  set_tensor(proto, value);
  there.emplace_back(value, name);
  return name;
}

std::string GraphWriter::weight(const Tensor& value, const std::string& wanted) {
  const std::string name = constant(value, wanted);
  const auto& initializers = graph_.initializer();
  if (std::ranges::any_of(initializers, [&](const auto& each) { return each.name() == name; }))
    weights_.insert(name);
  return name;
}

std::string GraphWriter::integers(const std::vector<int64_t>& values) {
  const std::string key = fmt::format("{}", fmt::join(values, ","));
  std::string& name = integers_[key];
  if (name.empty()) {
    const std::string label = std::exchange(label_, "");
    name = constant(torch::tensor(values, at::kLong), "integers");
    label_ = label;
  }
  return name;
}

std::string GraphWriter::scalar(double value, DType dtype) {
  const std::string key = fmt::format("{}:{}", dtype_name(dtype), value);
  std::string& name = integers_[key];
  if (name.empty()) name = constant(torch::tensor(value, at::kDouble).to(dtype), "number");
  return name;
}

::onnx::GraphProto GraphWriter::end_body() {
  ::onnx::GraphProto body;
  body.Swap(&bodies_.back());
  bodies_.pop_back();
  body.set_name(unused("body"));
  add_ranks(body);
  return body;
}

void GraphWriter::add_input(const std::string& name, DType dtype, const Shape& shape,
                            const std::vector<std::string>& axes) {
  taken_.insert(name);
  set_type(*graph_.add_input(), name, dtype, shape, axes);
}

void GraphWriter::note_rank(const std::string& value, DType dtype, int64_t rank) {
  ranks_[value] = {dtype, rank};
}

// Adds what is known of the values of the graph that are not its outputs.
void GraphWriter::add_ranks(::onnx::GraphProto& graph) const {
  std::set<std::string> outputs;
  for (const auto& output : graph.output()) outputs.insert(output.name());
  for (const auto& node : graph.node()) {
    for (const std::string& name : node.output()) {
      const auto known = ranks_.find(name);
      if (known == ranks_.end() || outputs.contains(name)) continue;
      auto* info = graph.add_value_info();
      set_type(*info, name, known->second.first, {}, {});
      auto* shape = info->mutable_type()->mutable_tensor_type()->mutable_shape();
      for (int64_t axis = 0; axis < known->second.second; ++axis) shape->add_dim();
    }
  }
}

void GraphWriter::reserve(const std::string& name) { taken_.insert(name); }

void GraphWriter::add_output(const std::string& name, const std::string& value, DType dtype,
                             const Shape& shape, const std::vector<std::string>& axes) {
  outputs_.emplace_back(name, value);
  set_type(*graph_.add_output(), name, dtype, shape, axes);
}

// Gives the values that are outputs the names of these. A value that a node does not make, or that
// is an output already, is copied.
void GraphWriter::rename_outputs() {
  std::map<std::string, std::string> renamed;
  std::set<std::string> made;
  for (const auto& node : graph_.node()) made.insert(node.output().begin(), node.output().end());
  std::vector<std::pair<std::string, std::string>> copies;
  for (const auto& [name, value] : outputs_) {
    if (!made.contains(value) || !renamed.emplace(value, name).second)
      copies.emplace_back(value, name);
  }
  const auto rename = [&](std::string& name) {
    if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
  };
  for_names(graph_, rename);
  for (auto& node : *graph_.mutable_node()) {
    for (std::string& name : *node.mutable_output()) rename(name);
  }
  for (const auto& [value, name] : copies) {
    ::onnx::NodeProto& node = *graph_.add_node();
    node.set_name(unused(name + "/Identity"));
    node.set_op_type("Identity");
    const auto found = renamed.find(value);
    node.add_input(found == renamed.end() ? value : found->second);
    node.add_output(name);
  }
}

void GraphWriter::remove_unused() {
  std::set<std::string> needed;
  for (const auto& output : graph_.output()) needed.insert(output.name());
  std::vector<int> kept;
  for (int i = graph_.node_size() - 1; i >= 0; --i) {
    const auto& node = graph_.node(i);
    if (std::ranges::none_of(node.output(),
                             [&](const auto& name) { return needed.contains(name); }))
      continue;
    kept.push_back(i);
    needed.insert(node.input().begin(), node.input().end());
    for (auto& attribute : *graph_.mutable_node(i)->mutable_attribute()) {
      if (attribute.has_g())
        for_names(*attribute.mutable_g(), [&](std::string& name) { needed.insert(name); });
    }
  }
  ::onnx::GraphProto clean;
  for (auto i = kept.rbegin(); i != kept.rend(); ++i)
    clean.add_node()->Swap(graph_.mutable_node(*i));
  for (auto& tensor : *graph_.mutable_initializer()) {
    if (needed.contains(tensor.name())) clean.add_initializer()->Swap(&tensor);
  }
  graph_.mutable_node()->Swap(clean.mutable_node());
  graph_.mutable_initializer()->Swap(clean.mutable_initializer());
}

::onnx::GraphProto GraphWriter::take() {
  rename_outputs();
  remove_unused();
  add_ranks(graph_);
  ::onnx::GraphProto graph;
  graph.Swap(&graph_);
  *this = GraphWriter();
  return graph;
}

}  // namespace muster::inline v0_1::onnx::internal

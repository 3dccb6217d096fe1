#include "muster/imports/internal/onnx_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/imports/internal/kernels.h"
#include "muster/imports/internal/message_scan.h"
#include "muster/imports/internal/tensor_reader.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

constexpr int64_t kOldestOpset = 13;
constexpr int64_t kNewestOpset = 28;
constexpr int64_t kNewestMlOpset = 5;

// Inputs of operations that are numbers of the operation, and no weights that train.
const std::map<std::string, std::set<int>>& fixed_inputs() {
  static const std::map<std::string, std::set<int>> fixed = {{"BatchNormalization", {3, 4}},
                                                             {"Clip", {1, 2}},
                                                             {"DequantizeLinear", {1}},
                                                             {"Dropout", {1}},
                                                             {"OneHot", {2}},
                                                             {"Pad", {2}},
                                                             {"QLinearConv", {1, 4, 6}},
                                                             {"QLinearMatMul", {1, 4, 6}},
                                                             {"QuantizeLinear", {1}},
                                                             {"Range", {0, 1, 2}},
                                                             {"Resize", {1, 2}}};
  return fixed;
}

class Reader {
 public:
  Reader(ImportedModel& model, std::map<std::string, int64_t> opsets)
      : model_(model), opsets_(std::move(opsets)) {}

  // `outer`: the values around the graph of a node.
  ImportedGraph read(const GraphProto& graph, const std::map<std::string, size_t>* outer) {
    ImportedGraph result;
    std::map<std::string, size_t> names =
        outer != nullptr ? *outer : std::map<std::string, size_t>();
    std::set<std::string> own;
    const auto define = [&](const std::string& name, const std::string& what) {
      if (!own.insert(name).second)
        throw broken(
            fmt::format("{} has the name \"{}\", which another value has", what, printable(name)));
      return names[name] = model_.slots++;
    };
    if (graph.sparse_initializer_size() > 0)
      throw unsupported("sparse weights", "make them dense in the program that exports the model");
    for (const auto& tensor : graph.initializer()) {
      const size_t slot = define(tensor.name(), "a weight");
      Tensor value = read_tensor(tensor, model_.place);
      const bool is_variable =
          at::isFloatingType(value.scalar_type()) && value.dim() > 0 && value.numel() > 0;
      model_.weights.push_back({tensor.name(), slot, std::move(value), is_variable, is_variable});
      weights_[slot] = model_.weights.size() - 1;
    }
    for (const auto& input : graph.input()) {
      // Older files list weights as inputs too.
      if (own.contains(input.name())) continue;
      result.inputs.push_back(define(input.name(), "an input"));
    }
    for (const NodeProto& node : graph.node()) {
      // A Constant is a value, and no node.
      ImportedNode read = read_node(node, names);
      for (const std::string& output : node.output()) {
        read.outputs.push_back(
            output.empty() ? kNoSlot : define(output, "a result of the node " + read.label));
      }
      if (read.operation == "Constant") {
        add_constant(read);
      } else {
        if (read.kernel->prepare != nullptr) read.prepared = read.kernel->prepare(read);
        result.nodes.push_back(std::move(read));
      }
    }
    for (const auto& output : graph.output()) {
      const auto found = names.find(output.name());
      if (found == names.end())
        throw broken(fmt::format("no node makes the output \"{}\"", printable(output.name())));
      result.outputs.push_back(found->second);
    }
    note_last_uses(result);
    return result;
  }

 private:
  Error broken(const std::string& what) const {
    return corrupt(fmt::format("{} is not a valid ONNX model: {}", model_.place.path, what),
                   "onnx.checker.check_model() of Python shows more");
  }
  Error unsupported(const std::string& what, const std::string& hint) const {
    return invalid_argument(fmt::format("not supported: ONNX: {}, in {}", what, model_.place.path),
                            hint);
  }

  ImportedNode read_node(const NodeProto& node, const std::map<std::string, size_t>& names) {
    ImportedNode result;
    const bool own = node.domain().empty() || node.domain() == "ai.onnx";
    result.operation = printable(own ? node.op_type() : node.domain() + "." + node.op_type());
    const std::string& name = !node.name().empty()     ? node.name()
                              : node.output_size() > 0 ? node.output(0)
                                                       : node.op_type();
    result.label = fmt::format("\"{}\" ({})", printable(name), result.operation);
    result.opset = opset_of(own ? "" : node.domain(), result.label);
    const auto found = kernel_map().find(result.operation);
    const bool constant = result.operation == "Constant";
    if (found == kernel_map().end() && !constant) {
      throw unsupported("the operation of the node " + result.label,
                        "run the file in onnxruntime, or export the model with other operations");
    }
    if (!constant) result.kernel = &found->second;
    for (const std::string& input : node.input()) {
      if (input.empty()) {
        result.inputs.push_back(kNoSlot);
        continue;
      }
      const auto value = names.find(input);
      if (value == names.end()) {
        throw broken(
            fmt::format("the node {} takes \"{}\", which no input, weight or earlier node "
                        "makes",
                        result.label, printable(input)));
      }
      note_weight(value->second, result.operation, result.inputs.size());
      result.inputs.push_back(value->second);
    }
    const size_t least = constant ? 0 : result.kernel->least_inputs;
    if (result.inputs.size() < least) {
      throw broken(fmt::format("the node {} has {} inputs, it needs {}", result.label,
                               result.inputs.size(), least));
    }
    for (size_t i = 0; i < least; ++i) {
      if (result.inputs[i] == kNoSlot)
        throw broken(fmt::format("the node {} has no input {}", result.label, i));
    }
    for (const AttributeProto& attribute : node.attribute())
      result.attributes[attribute.name()] = read_attribute(attribute, names, result.label);
    return result;
  }

  int64_t opset_of(const std::string& domain, const std::string& label) const {
    const auto found = opsets_.find(domain);
    if (found != opsets_.end()) return found->second;
    throw broken(fmt::format("the node {} is of a domain without a version", label));
  }

  // A number of an operation does not train.
  void note_weight(size_t slot, const std::string& operation, size_t place) {
    const auto weight = weights_.find(slot);
    if (weight == weights_.end()) return;
    const auto fixed = fixed_inputs().find(operation);
    if (fixed == fixed_inputs().end() || !fixed->second.contains(static_cast<int>(place))) return;
    ImportedWeight& found = model_.weights[weight->second];
    found.trainable = false;
    // The statistics of a normalization are weights that only training changes.
    if (operation != "BatchNormalization") found.is_variable = false;
  }

  ImportedAttribute read_attribute(const AttributeProto& attribute,
                                   const std::map<std::string, size_t>& names,
                                   const std::string& label) {
    ImportedAttribute result;
    switch (attribute.type()) {
      case AttributeProto::INT:
        result.integer = attribute.i();
        break;
      case AttributeProto::FLOAT:
        result.number = attribute.f();
        break;
      case AttributeProto::STRING:
        result.text = attribute.s();
        break;
      case AttributeProto::INTS:
        result.integers.assign(attribute.ints().begin(), attribute.ints().end());
        break;
      case AttributeProto::FLOATS:
        result.numbers.assign(attribute.floats().begin(), attribute.floats().end());
        break;
      case AttributeProto::STRINGS:
        result.texts.assign(attribute.strings().begin(), attribute.strings().end());
        break;
      case AttributeProto::TENSOR:
        result.tensor = read_tensor(attribute.t(), model_.place);
        break;
      case AttributeProto::GRAPH:
        result.graph = std::make_shared<ImportedGraph>(read(attribute.g(), &names));
        break;
      default:
        throw unsupported(
            fmt::format("the attribute \"{}\" of the node {}", printable(attribute.name()), label),
            "run the file in onnxruntime");
    }
    return result;
  }

  void add_constant(const ImportedNode& node) {
    if (node.attributes.size() != 1 || node.outputs.size() != 1 || node.outputs[0] == kNoSlot)
      throw broken(fmt::format("the node {} has no value", node.label));
    const auto& [name, given] = *node.attributes.begin();
    Tensor value;
    if (name == "value") value = given.tensor;
    if (name == "value_float") value = torch::full({}, given.number, at::kFloat);
    if (name == "value_int") value = torch::full({}, given.integer, at::kLong);
    if (name == "value_floats") value = torch::tensor(given.numbers, at::kFloat);
    if (name == "value_ints") value = torch::tensor(given.integers, at::kLong);
    if (!value.defined())
      throw unsupported(
          fmt::format("a constant of the kind \"{}\", of the node {}", printable(name), node.label),
          "run the file in onnxruntime");
    model_.weights.push_back({"", node.outputs[0], value, false, false});
  }

  ImportedModel& model_;
  std::map<std::string, int64_t> opsets_;
  std::map<size_t, size_t> weights_;  // their numbers, by slot
};

ImportedInfo info_of(const ::onnx::ValueInfoProto& value, const ModelPlace& place) {
  ImportedInfo info{.name = value.name()};
  const std::string what =
      fmt::format("the input or output \"{}\" of {}", printable(value.name()), place.path);
  if (!value.type().has_tensor_type())
    throw invalid_argument("not supported: ONNX: " + what + " is not a tensor");
  const auto& tensor = value.type().tensor_type();
  info.dtype = dtype_of_element(tensor.elem_type(), what);
  info.has_shape = tensor.has_shape();
  for (const auto& dim : tensor.shape().dim()) {
    const bool fixed = dim.has_dim_value() && dim.dim_value() >= 0;
    info.shape.push_back(fixed ? dim.dim_value() : -1);
    info.axes.push_back(fixed ? "" : dim.dim_param());
  }
  return info;
}

std::map<std::string, int64_t> opsets_of(const ::onnx::ModelProto& model, const ModelPlace& place) {
  std::map<std::string, int64_t> opsets;
  for (const auto& opset : model.opset_import()) {
    const bool own = opset.domain().empty() || opset.domain() == "ai.onnx";
    const int64_t version = opset.version();
    opsets[own ? "" : opset.domain()] = version;
    if (own && (version < kOldestOpset || version > kNewestOpset)) {
      throw invalid_argument(
          fmt::format("not supported: ONNX: {} has opset {}", place.path, version),
          fmt::format("Muster reads the opsets {} to {}: onnx.version_converter of Python converts "
                      "the file",
                      kOldestOpset, kNewestOpset));
    }
    if (opset.domain() == "ai.onnx.ml" && version > kNewestMlOpset)
      throw invalid_argument(
          fmt::format("not supported: ONNX: {} has opset {} of ai.onnx.ml", place.path, version));
  }
  return opsets;
}

}  // namespace

ImportedModel read_onnx_graph(const std::string& bytes, const ModelPlace& place) {
  const std::string damaged = place.path + " is not an ONNX model, or it is cut off";
  const std::string again = "copy the file again, or export the model again";
  if (!scan_messages(bytes_of(bytes))) throw corrupt(damaged, again);
  ::onnx::ModelProto model;
  if (!model.ParseFromString(bytes) || !model.has_graph() || model.opset_import_size() == 0)
    throw corrupt(damaged, again);
  if (model.functions_size() > 0) {
    throw invalid_argument(
        fmt::format("not supported: ONNX: {} has functions of its own", place.path),
        "onnx.inliner.inline_local_functions() of Python replaces them");
  }
  ImportedModel result{.place = place};
  result.graph = Reader(result, opsets_of(model, place)).read(model.graph(), nullptr);
  const auto is_weight = [&](const std::string& name) {
    return std::ranges::any_of(result.weights,
                               [&](const auto& weight) { return weight.name == name; });
  };
  for (const auto& input : model.graph().input()) {
    if (!is_weight(input.name())) result.inputs.push_back(info_of(input, place));
  }
  for (const auto& output : model.graph().output())
    result.outputs.push_back(info_of(output, place));
  for (const auto& entry : model.metadata_props()) result.metadata[entry.key()] = entry.value();
  return result;
}

}  // namespace muster::inline v0_1::onnx::internal

#include "muster/savedmodel/internal/tensorflow_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/bundles/saved_model_wire.h"
#include "muster/formats/protobuf.h"
#include "muster/savedmodel/internal/dtypes.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

using formats::internal::Builder;

namespace wire = tensorflow::wire;

// The version of graphs of TensorFlow 2.4, which has all operations that are written here.
constexpr int kProducer = 561;
// Constants up to this many bytes are compared with others.
constexpr size_t kSmall = 256;

std::string argument(const std::string& name, BundleDtype dtype) {
  Builder<wire::ArgumentField> to;
  to.put_bytes(wire::ArgumentField::kName, name);
  to.put_varint(wire::ArgumentField::kType, static_cast<int>(dtype));
  return to.take();
}

// TensorFlow's names: letters, digits, and a few other characters that are not the first.
std::string legal(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) &&
        std::string_view("_./-").find(c) == std::string_view::npos)
      c = '_';
  }
  if (name.empty() || !std::isalnum(static_cast<unsigned char>(name[0]))) name = "n" + name;
  return name;
}

// The name that TensorFlow gives the outputs of an operation: a function refers to them by it.
// Numbered: all outputs have this name.
struct OutputName {
  const char* operation;
  const char* name;
};
constexpr OutputName kOutputNames[] = {
    {"Abs", "y"},
    {"Acos", "y"},
    {"AddV2", "z"},
    {"Asin", "y"},
    {"Atan", "y"},
    {"BroadcastArgs", "r0"},
    {"Cast", "y"},
    {"Ceil", "y"},
    {"Cos", "y"},
    {"Cosh", "y"},
    {"Cumsum", "out"},
    {"Elu", "activations"},
    {"Equal", "z"},
    {"Erf", "y"},
    {"Exp", "y"},
    {"Expm1", "y"},
    {"FloorMod", "z"},
    {"Floor", "y"},
    {"Greater", "z"},
    {"GreaterEqual", "z"},
    {"IsInf", "y"},
    {"IsNan", "y"},
    {"LeakyRelu", "activations"},
    {"Less", "z"},
    {"LessEqual", "z"},
    {"Log", "y"},
    {"LogSoftmax", "logsoftmax"},
    {"LogicalAnd", "z"},
    {"LogicalNot", "y"},
    {"LogicalOr", "z"},
    {"MatMul", "product"},
    {"Maximum", "z"},
    {"Minimum", "z"},
    {"Mul", "z"},
    {"Neg", "y"},
    {"NotEqual", "z"},
    {"OnesLike", "y"},
    {"Pow", "z"},
    {"RealDiv", "z"},
    {"Reciprocal", "y"},
    {"Relu", "activations"},
    {"Round", "y"},
    {"Rsqrt", "y"},
    {"Selu", "activations"},
    {"Sigmoid", "y"},
    {"Sign", "y"},
    {"Sin", "y"},
    {"Sinh", "y"},
    {"Softmax", "softmax"},
    {"Sqrt", "y"},
    {"Square", "y"},
    {"Sub", "z"},
    {"Tan", "y"},
    {"Tanh", "y"},
    {"TensorListSetItem", "output_handle"},
    {"TensorListReserve", "handle"},
    {"TensorListStack", "tensor"},
    {"Transpose", "y"},
    {"TruncateDiv", "z"},
    {"ZerosLike", "y"},
    {"Where", "index"},
};

std::string output_name(const std::string& operation) {
  for (const OutputName& row : kOutputNames) {
    if (operation == row.operation) return row.name;
  }
  return "output";
}

}  // namespace

std::string TensorflowGraph::unused(const std::string& wanted) {
  const std::string name = legal(wanted);
  if (taken_.insert(name).second) return name;
  while (true) {
    const std::string other = fmt::format("{}_{}", name, ++numbers_[name]);
    if (taken_.insert(other).second) return other;
  }
}

void TensorflowGraph::set_label(const std::string& label) { label_ = label; }

// The name that a value has in the function at a level: its own, or that of an argument.
std::string TensorflowGraph::here(const std::string& value, size_t level) {
  if (level == 0 || value.starts_with('^')) return value;
  Scope& scope = scopes_[level];
  const std::string node = value.substr(0, value.find(':'));
  if (scope.operations.contains(node)) return value;
  for (const auto& [name, dtype] : scope.arguments) {
    if (name == value) return value;
  }
  const std::string outer = here(value, level - 1);
  const auto [found, is_new] = scope.captures.try_emplace(outer, "");
  if (!is_new) return found->second;
  found->second = unused("captured");
  dtypes_[found->second] = dtypes_.at(value);
  scope.arguments.emplace_back(found->second, dtypes_.at(value));
  scope.captured.push_back(outer);
  return found->second;
}

std::string TensorflowGraph::added_to(Scope& scope, const std::string& name,
                                      const std::string& operation, std::vector<std::string> inputs,
                                      const Attributes& attributes,
                                      const std::vector<BundleDtype>& dtypes) {
  for (size_t i = 0; i < dtypes.size(); ++i)
    dtypes_[i == 0 ? name : fmt::format("{}:{}", name, i)] = dtypes[i];
  scope.operations[name] = operation;
  scope.nodes.push_back({name, operation, std::move(inputs), attributes});
  return name;
}

std::vector<std::string> TensorflowGraph::add_with_outputs(const std::string& operation,
                                                           const std::vector<std::string>& inputs,
                                                           const Attributes& attributes,
                                                           const std::vector<BundleDtype>& dtypes) {
  std::vector<std::string> given;
  for (const std::string& input : inputs) given.push_back(here(input, scopes_.size() - 1));
  const std::string name =
      added_to(scopes_.back(), unused(label_.empty() ? operation : label_ + "/" + operation),
               operation, std::move(given), attributes, dtypes);
  std::vector<std::string> names;
  for (size_t i = 0; i < dtypes.size(); ++i)
    names.push_back(i == 0 ? name : fmt::format("{}:{}", name, i));
  return names;
}

std::string TensorflowGraph::add(const std::string& operation,
                                 const std::vector<std::string>& inputs,
                                 const Attributes& attributes, BundleDtype dtype) {
  return add_with_outputs(operation, inputs, attributes, {dtype}).front();
}

std::string TensorflowGraph::add_outside(const std::string& name, const std::string& operation,
                                         const std::vector<std::string>& inputs,
                                         const Attributes& attributes,
                                         const std::vector<BundleDtype>& dtypes) {
  const std::string own = unused(name);
  kept_.insert(own);
  return added_to(scopes_.front(), own, operation, inputs, attributes, dtypes);
}

std::string TensorflowGraph::constant(BundleDtype dtype, const std::vector<int64_t>& shape,
                                      std::string_view bytes) {
  const bool small = bytes.size() <= kSmall;
  const std::string key = small ? fmt::format("{} {} {}", static_cast<int>(dtype),
                                              fmt::join(shape, ","), std::string(bytes))
                                : "";
  auto& constants = scopes_.back().constants;
  if (small) {
    if (const auto found = constants.find(key); found != constants.end()) return found->second;
  }
  const std::string name =
      add("Const", {}, {{"dtype", type_value(dtype)}, {"value", tensor_value(dtype, shape, bytes)}},
          dtype);
  if (small) constants[key] = name;
  return name;
}

std::string TensorflowGraph::texts(const std::vector<int64_t>& shape,
                                   const std::vector<std::string>& texts) {
  return add("Const", {},
             {{"dtype", type_value(BundleDtype::kString)}, {"value", texts_value(shape, texts)}},
             BundleDtype::kString);
}

std::string TensorflowGraph::int32s(const std::vector<int64_t>& numbers) {
  std::string bytes;
  for (const int64_t number : numbers) append_little_endian(bytes, checked_int32(number));
  return constant(BundleDtype::kInt32, {static_cast<int64_t>(numbers.size())}, bytes);
}

std::string TensorflowGraph::int32(int64_t number) {
  std::string bytes;
  append_little_endian(bytes, checked_int32(number));
  return constant(BundleDtype::kInt32, {}, bytes);
}

std::string TensorflowGraph::int64s(const std::vector<int64_t>& numbers) {
  std::string bytes;
  for (const int64_t number : numbers) append_little_endian(bytes, number);
  return constant(BundleDtype::kInt64, {static_cast<int64_t>(numbers.size())}, bytes);
}

std::string TensorflowGraph::scalar(double number, BundleDtype dtype) {
  return constant(dtype, {}, bytes_of_number(number, dtype));
}

std::vector<std::string> TensorflowGraph::begin_function(
    const std::vector<BundleDtype>& arguments) {
  scopes_.emplace_back();
  std::vector<std::string> names;
  for (const BundleDtype dtype : arguments) {
    names.push_back(unused("argument"));
    dtypes_[names.back()] = dtype;
    scopes_.back().arguments.emplace_back(names.back(), dtype);
  }
  return names;
}

// In a function, "Split:1" is "Split:output:1".
std::string TensorflowGraph::in_function(const Scope& scope, const std::string& value) {
  if (value.starts_with('^')) return value;
  const size_t colon = value.find(':');
  const std::string node = value.substr(0, colon);
  const auto found = scope.operations.find(node);
  if (found == scope.operations.end()) return value;  // an argument
  std::string index = colon == std::string::npos ? "0" : value.substr(colon + 1);
  std::string name = output_name(found->second);
  if (found->second == "TopKV2") {
    name = index == "0" ? "values" : "indices";
    index = "0";
  }
  return fmt::format("{}:{}:{}", node, name, index);
}

TensorflowGraph::Function TensorflowGraph::end_function(const std::string& name,
                                                        const std::vector<std::string>& results) {
  std::vector<std::string> returned;
  for (const std::string& result : results) {
    const std::string value = here(result, scopes_.size() - 1);
    returned.push_back(
        add("Identity", {value}, {{"T", type_value(dtypes_.at(value))}}, dtypes_.at(value)));
  }
  // Each captured value too, so that a loop finds it again.
  const size_t own = scopes_.back().arguments.size() - scopes_.back().captured.size();
  for (size_t i = own; i < scopes_.back().arguments.size(); ++i) {
    const auto [value, dtype] = scopes_.back().arguments[i];
    returned.push_back(add("Identity", {value}, {{"T", type_value(dtype)}}, dtype));
  }
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  Function made{unused(name), scope.captured};
  Builder<wire::OperationField> signature;
  signature.put_bytes(wire::OperationField::kName, made.name);
  for (const auto& [argument_name, dtype] : scope.arguments)
    signature.put_bytes(wire::OperationField::kInput, argument(argument_name, dtype));
  Builder<wire::FunctionField> function;
  std::string returns;
  for (size_t i = 0; i < returned.size(); ++i) {
    signature.put_bytes(wire::OperationField::kOutput,
                        argument(fmt::format("result{}", i), dtypes_.at(returned[i])));
  }
  function.put_bytes(wire::FunctionField::kSignature, signature.bytes());
  for (const Node* each : needed_nodes(scope, {returned.begin(), returned.end()})) {
    Node node = *each;
    for (std::string& input : node.inputs) input = in_function(scope, input);
    function.put_bytes(wire::FunctionField::kNode, encode_node(node));
  }
  for (size_t i = 0; i < returned.size(); ++i) {
    function.put_bytes(wire::FunctionField::kReturn,
                       map_entry(fmt::format("result{}", i), in_function(scope, returned[i])));
  }
  functions_.push_back(function.take());
  return made;
}

std::string TensorflowGraph::add_less_than(const std::vector<BundleDtype>& arguments) {
  const std::vector<std::string> names = begin_function(arguments);
  const std::string less = add("Less", {names.at(0), names.at(1)},
                               {{"T", type_value(BundleDtype::kInt64)}}, BundleDtype::kBool);
  return end_function("while_cond", {less}).name;
}

// A node comes after those that it takes from.
std::vector<const TensorflowGraph::Node*> TensorflowGraph::needed_nodes(
    const Scope& scope, std::set<std::string> needed) {
  std::vector<const Node*> nodes;
  for (auto node = scope.nodes.rbegin(); node != scope.nodes.rend(); ++node) {
    if (!needed.contains(node->name)) continue;
    nodes.push_back(&*node);
    for (const std::string& input : node->inputs) {
      const size_t begin = input.starts_with('^') ? 1 : 0;
      needed.insert(input.substr(begin, input.find(':') - begin));
    }
  }
  std::ranges::reverse(nodes);
  return nodes;
}

std::string TensorflowGraph::encode_node(const Node& node) {
  Builder<wire::NodeField> to;
  to.put_bytes(wire::NodeField::kName, node.name);
  to.put_bytes(wire::NodeField::kOperation, node.operation);
  for (const std::string& input : node.inputs) to.put_bytes(wire::NodeField::kInput, input);
  for (const auto& [key, value] : node.attributes)
    to.put_bytes(wire::NodeField::kAttribute, map_entry(key, value));
  return to.take();
}

std::string TensorflowGraph::encode() const {
  Builder<wire::GraphField> to;
  for (const Node* node : needed_nodes(scopes_.front(), kept_))
    to.put_bytes(wire::GraphField::kNode, encode_node(*node));
  Builder<wire::LibraryField> library;
  for (const std::string& function : functions_)
    library.put_bytes(wire::LibraryField::kFunction, function);
  to.add_bytes(wire::GraphField::kLibrary, library.bytes());
  Builder<wire::VersionsField> versions;
  versions.put_varint(wire::VersionsField::kProducer, kProducer);
  to.put_bytes(wire::GraphField::kVersions, versions.bytes());
  return to.take();
}

}  // namespace muster::inline v0_1::saved_model::internal

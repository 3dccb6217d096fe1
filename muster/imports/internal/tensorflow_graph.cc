#include "muster/imports/internal/tensorflow_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/imports/internal/tensorflow_attributes.h"
#include "muster/imports/internal/tensorflow_kernels.h"
#include "muster/imports/internal/tensorflow_scope.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {
namespace {

using onnx::internal::ImportedGraph;
using onnx::internal::ImportedInfo;
using onnx::internal::ImportedModel;
using onnx::internal::ImportedNode;
using onnx::internal::ModelPlace;
using tensorflow::SavedFunction;
using tensorflow::SavedModelFile;
using tensorflow::SavedNode;
using tensorflow::SavedSignature;
using tensorflow::SavedTensorInfo;

constexpr int kMostNested = 64;
// Calls of functions are written out. A file whose functions call each other several times each is
// short, and could have any number of nodes.
constexpr size_t kLeastNodes = 1000, kMostRepeated = 32;

bool is_one_of(std::string_view name, const std::set<std::string_view>& names) {
  return names.contains(name);
}

bool gives_its_input(std::string_view operation) {
  return is_one_of(operation, {"CheckNumerics", "DeepCopy", "EnsureShape", "Identity", "IdentityN",
                               "PlaceholderWithDefault", "PreventGradient", "ReadVariableOp",
                               "Snapshot", "StopGradient"});
}

bool is_variable(std::string_view operation) {
  return is_one_of(operation, {"VarHandleOp", "Variable", "VariableV2"});
}

bool changes_variables(std::string_view operation) {
  return operation.starts_with("Assign") || operation.starts_with("ResourceScatter") ||
         operation.starts_with("ResourceApply");
}

class GraphReader {
 public:
  GraphReader(const SavedModelFile& file, TensorflowVariables& variables, const ModelPlace& place)
      : file_(file), variables_(variables), most_nodes_(kLeastNodes) {
    read_.model.place = place;
    read_.model.format = "SavedModel";
    read_.model.runner = "TensorFlow";
    most_nodes_ += kMostRepeated * file.nodes().size();
    for (const auto& [name, function] : file.functions())
      most_nodes_ += kMostRepeated * function.nodes.size();
  }

  SignatureModel read(const SavedSignature& signature) {
    ImportedModel& model = read_.model;
    Scope scope(file_.nodes(), place(), /*is_function=*/false);
    for (const auto& [name, info] : signature.inputs) {
      if (info.dtype == BundleDtype::kString) {
        add_features(scope, name, info);
      } else {
        add_input(scope, scope.reference(info.tensor), info_of(name, info, "input"));
      }
    }
    std::vector<std::string_view> wanted;
    for (const auto& [name, info] : signature.outputs) wanted.push_back(info.tensor);
    const Slots slots = values_of(scope, wanted, model.graph, 0);
    size_t at = 0;
    for (const auto& [name, info] : signature.outputs) {
      const size_t slot = slots[at++];
      if (info.dtype == BundleDtype::kString) {
        if (name == "classes") read_.classes = constant_texts(slot);
        read_.texts.push_back(name);
        continue;
      }
      model.outputs.push_back(info_of(name, info, "output"));
      model.graph.outputs.push_back(slot);
    }
    if (model.outputs.empty()) {
      throw invalid_argument(fmt::format(
          "not supported: SavedModel: a signature of {} without outputs of numbers", place()));
    }
    drop_unused();
    return std::move(read_);
  }

 private:
  const std::string& place() const { return read_.model.place.path; }
  Error broken(const std::string& what) const { return broken_saved_model(place(), what); }

  ImportedInfo info_of(const std::string& name, const SavedTensorInfo& info,
                       const char* what) const {
    const auto dtype = torch_dtype(info.dtype);
    if (!dtype || info.tensor.empty()) {
      throw invalid_argument(fmt::format(
          "not supported: SavedModel: the {} \"{}\" of {} is {}", what, printable_beginning(name),
          place(), info.tensor.empty() ? "no dense tensor" : tensorflow::describe(info.dtype)));
    }
    return {.name = name, .dtype = *dtype, .shape = info.shape, .has_shape = info.has_rank};
  }

  void add_input(Scope& scope, const Reference& value, ImportedInfo info) {
    if (!scope.given.emplace(value, read_.model.slots).second)
      throw broken(fmt::format("two inputs are \"{}\"", printable_beginning(value.node)));
    read_.model.graph.inputs.push_back(read_.model.slots++);
    read_.model.inputs.push_back(std::move(info));
  }

  // The features that a node parses of serialized examples become inputs.
  void add_features(Scope& scope, const std::string& input, const SavedTensorInfo& info) {
    const Reference examples = scope.reference(info.tensor);
    for (const SavedNode& node : scope.nodes) {
      if (node.operation != "ParseExampleV2") continue;
      const auto inputs = node.inputs();
      if (inputs.size() < 4 || scope.reference(inputs[0]) != examples) continue;
      const auto attributes = attributes_of(node);
      const auto get = [&](const char* name) {
        const auto found = attributes.find(name);
        return found == attributes.end() ? ImportedAttribute() : found->second;
      };
      const auto keys_at = scope.by_name.find(scope.reference(inputs[3]).node);
      const auto dtypes = get("Tdense").integers;
      const auto shapes = get("dense_shapes").shapes;
      const auto sparse = static_cast<size_t>(std::max<int64_t>(get("num_sparse").integer, 0));
      if (keys_at == scope.by_name.end() || sparse > kMostOutputs) continue;
      const auto keys_attributes = attributes_of(scope.nodes[keys_at->second]);
      const auto value = keys_attributes.find("value");
      if (value == keys_attributes.end()) continue;
      const std::vector<std::string>& keys = value->second.texts;
      if (keys.size() != dtypes.size() || keys.size() != shapes.size())
        throw broken(fmt::format("the node {} has lists of different lengths", label_of(node)));
      for (size_t i = 0; i < keys.size(); ++i) {
        SavedTensorInfo feature{.tensor = "feature",
                                .dtype = static_cast<BundleDtype>(dtypes[i]),
                                .shape = shapes[i],
                                .has_rank = true};
        feature.shape.insert(feature.shape.begin(), -1);
        if (feature.dtype == BundleDtype::kString) continue;  // refused if it is used
        add_input(scope, {node.name, 3 * sparse + i}, info_of(keys[i], feature, "feature"));
      }
      return;
    }
    throw invalid_argument(
        fmt::format("not supported: SavedModel: the input \"{}\" of {} is texts",
                    printable_beginning(input), place()),
        "export a signature whose inputs are numbers, the ids of the texts for example");
  }

  std::map<std::string, ImportedAttribute> attributes_of(const SavedNode& node) const {
    std::map<std::string, ImportedAttribute> all;
    for (const auto& [name, message] : node.attributes()) {
      // Notes of other programs.
      if (name.starts_with("_")) continue;
      all[std::string(name)] = read_tensorflow_attribute(message);
    }
    return all;
  }

  // Reads the nodes that these values need, into `graph`; returns the values' places.
  Slots values_of(Scope& scope, const std::vector<std::string_view>& wanted, ImportedGraph& graph,
                  int depth) {
    std::vector<Reference> results;
    for (const std::string_view tensor : wanted) results.push_back(scope.reference(tensor));
    for (const size_t node : scope.order_of(results)) read_node(scope, node, graph, depth);
    Slots slots;
    for (const Reference& result : results) slots.push_back(scope.slot_of(result));
    return slots;
  }

  void read_node(Scope& scope, size_t index, ImportedGraph& graph, int depth) {
    const SavedNode& node = scope.nodes[index];
    if (++nodes_ > most_nodes_) {
      throw invalid_argument(
          fmt::format(
              "not supported: SavedModel: the functions of {} call each other so often that "
              "they have more than {} nodes",
              place(), most_nodes_),
          "run the file in TensorFlow");
    }
    Slots inputs;
    for (const Reference& input : scope.inputs_of(node)) inputs.push_back(scope.slot_of(input));
    Slots& results = scope.values[index];
    const std::string_view operation = node.operation;
    if (gives_its_input(operation)) {
      if (inputs.empty()) throw broken(fmt::format("the node {} has no input", label_of(node)));
      results = std::move(inputs);
      return;
    }
    if (operation == "Placeholder") {
      throw invalid_argument(
          fmt::format("not supported: SavedModel: the signature needs the value of the node {}, "
                      "which is none of its inputs",
                      label_of(node)),
          "export a signature with this input");
    }
    std::map<std::string, ImportedAttribute> attributes = attributes_of(node);
    if (is_variable(operation)) {
      results = {variable_slot(node, attributes)};
      return;
    }
    const auto direct = file_.functions().find(operation);
    const bool calls = operation == "PartitionedCall" || operation == "StatefulPartitionedCall";
    if (direct != file_.functions().end() || calls) {
      const SavedFunction& function = calls ? function_of(node, attributes, "f") : direct->second;
      results = call(function, inputs, graph, depth + 1);
      return;
    }
    const auto value = attributes.find("value");
    if (operation == "Const" && value != attributes.end() && value->second.tensor.defined()) {
      results = {read_.model.slots++};
      read_.model.weights.push_back({"", results[0], value->second.tensor, false, false});
      return;
    }
    add_node(scope, index, std::move(inputs), std::move(attributes), graph, depth);
  }

  void add_node(Scope& scope, size_t index, Slots inputs,
                std::map<std::string, ImportedAttribute> attributes, ImportedGraph& graph,
                int depth) {
    const SavedNode& node = scope.nodes[index];
    ImportedNode made{.label = label_of(node), .operation = std::string(node.operation)};
    const auto kernel = tensorflow_kernel_map().find(made.operation);
    if (kernel != tensorflow_kernel_map().end()) {
      made.kernel = &kernel->second;
      if (inputs.size() < made.kernel->least_inputs) {
        throw broken(fmt::format("the node {} has {} inputs, it needs {}", made.label,
                                 inputs.size(), made.kernel->least_inputs));
      }
      if (made.kernel->has_graphs) {
        for (const char* name : {"cond", "body", "then_branch", "else_branch"}) {
          const auto found = attributes.find(name);
          if (found == attributes.end()) continue;
          const size_t skipped = std::string_view(name).ends_with("branch") ? 1 : 0;
          found->second.graph = graph_of(function_of(node, attributes, name),
                                         inputs.size() - std::min(skipped, inputs.size()), depth);
        }
      }
    }
    made.inputs = std::move(inputs);
    for (size_t i = 0; i < scope.results[index]; ++i) made.outputs.push_back(read_.model.slots++);
    scope.values[index] = made.outputs;
    made.attributes = std::move(attributes);
    graph.nodes.push_back(std::move(made));
  }

  const SavedFunction& function_of(const SavedNode& node,
                                   const std::map<std::string, ImportedAttribute>& attributes,
                                   const char* name) const {
    const auto attribute = attributes.find(name);
    const auto found = attribute == attributes.end()
                           ? file_.functions().end()
                           : file_.functions().find(attribute->second.text);
    if (found != file_.functions().end()) return found->second;
    throw broken(fmt::format("the node {} calls a function that is not there", label_of(node)));
  }

  // The nodes of a function with these arguments; returns the places of its results.
  Slots call(const SavedFunction& function, const Slots& arguments, ImportedGraph& graph,
             int depth) {
    if (depth > kMostNested) {
      throw broken(fmt::format("the function \"{}\" calls itself, or {} functions call each other",
                               printable_beginning(function.name), kMostNested));
    }
    if (arguments.size() != function.arguments.size()) {
      throw broken(fmt::format("the function \"{}\" takes {} arguments, {} are given",
                               printable_beginning(function.name), function.arguments.size(),
                               arguments.size()));
    }
    for (const SavedNode& node : function.nodes) {
      if (!changes_variables(node.operation)) continue;
      throw invalid_argument(
          fmt::format("not supported: SavedModel: the node {} of {}, which changes a variable",
                      label_of(node), place()),
          "export the function that predicts, with training=False");
    }
    Scope scope(function.nodes, place(), /*is_function=*/true);
    for (size_t i = 0; i < arguments.size(); ++i)
      scope.given[{function.arguments[i], 0}] = arguments[i];
    std::vector<std::string_view> wanted;
    for (const std::string_view result : function.results) {
      const auto found = function.returns.find(result);
      if (found == function.returns.end())
        throw broken(fmt::format("the function \"{}\" does not give its result \"{}\"",
                                 printable_beginning(function.name), printable_beginning(result)));
      wanted.push_back(found->second);
    }
    return values_of(scope, wanted, graph, depth);
  }

  // A function as a graph of its own.
  std::shared_ptr<const ImportedGraph> graph_of(const SavedFunction& function, size_t arguments,
                                                int depth) {
    auto graph = std::make_shared<ImportedGraph>();
    for (size_t i = 0; i < arguments; ++i) graph->inputs.push_back(read_.model.slots++);
    graph->outputs = call(function, graph->inputs, *graph, depth + 1);
    drop_unused(*graph);
    onnx::internal::note_last_uses(*graph);
    return graph;
  }

  size_t variable_slot(const SavedNode& node,
                       const std::map<std::string, ImportedAttribute>& attributes) {
    const std::string name(node.name);
    const auto known = variable_slots_.find(name);
    if (known != variable_slots_.end()) return known->second;
    const auto shared = attributes.find("shared_name");
    const bool has_name = shared != attributes.end() && !shared->second.text.empty();
    std::string own = has_name ? shared->second.text : name;
    const Tensor value = variables_.read(name, own);
    const auto dtype = attributes.find("dtype"), shape = attributes.find("shape");
    if (dtype != attributes.end() &&
        torch_dtype(static_cast<BundleDtype>(dtype->second.integer)) != value.scalar_type()) {
      throw broken(fmt::format(
          "the variable {} is {} in the checkpoint, and {} in the graph", label_of(node),
          describe(value), tensorflow::describe(static_cast<BundleDtype>(dtype->second.integer))));
    }
    // No sizes: the rank is unknown.
    if (shape != attributes.end() && !shape->second.integers.empty() &&
        shape->second.integers != value.sizes().vec() &&
        std::ranges::find(shape->second.integers, -1) == shape->second.integers.end()) {
      throw broken(fmt::format("the variable {} is {} in the checkpoint, and {} in the graph",
                               label_of(node), describe(value),
                               muster::describe(Shape(shape->second.integers))));
    }
    const auto trains = file_.trainable().find(own);
    constexpr std::string_view kOnlyPart = "/part_0";
    if (own.ends_with(kOnlyPart) && variables_.is_whole(name))
      own.resize(own.size() - kOnlyPart.size());
    while (!variable_names_.insert(own).second) own += "_1";
    const size_t slot = read_.model.slots++;
    const bool weighs =
        at::isFloatingType(value.scalar_type()) && value.dim() > 0 && value.numel() > 0;
    read_.model.weights.push_back(
        {printable(own), slot, value, weighs,
         weighs && (trains == file_.trainable().end() || trains->second)});
    return variable_slots_[name] = slot;
  }

  // The texts that a value repeats for each row, if they are constants.
  std::vector<std::string> constant_texts(size_t slot) const {
    for (int i = 0; i < 8; ++i) {
      const auto node =
          std::ranges::find_if(read_.model.graph.nodes, [&](const ImportedNode& each) {
            return std::ranges::find(each.outputs, slot) != each.outputs.end();
          });
      if (node == read_.model.graph.nodes.end()) return {};
      const auto value = node->attributes.find("value");
      if (node->operation == "Const" && value != node->attributes.end()) return value->second.texts;
      if (node->inputs.empty() ||
          !is_one_of(node->operation, {"BroadcastTo", "ExpandDims", "Reshape", "Tile"}))
        return {};
      slot = node->inputs[0];
    }
    return {};
  }

  // Nodes whose results nothing uses.
  static void drop_unused(ImportedGraph& graph) {
    std::set<size_t> used(graph.outputs.begin(), graph.outputs.end());
    std::vector<ImportedNode> kept;
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      const bool is_used =
          std::ranges::any_of(node->outputs, [&](size_t output) { return used.contains(output); });
      if (!is_used) continue;
      onnx::internal::collect_uses(*node, used);
      kept.push_back(std::move(*node));
    }
    std::ranges::reverse(kept);
    graph.nodes = std::move(kept);
  }

  void drop_unused() {
    ImportedModel& model = read_.model;
    drop_unused(model.graph);
    std::set<size_t> used(model.graph.outputs.begin(), model.graph.outputs.end()), statistics;
    check(model.graph, statistics);
    for (const ImportedNode& node : model.graph.nodes) onnx::internal::collect_uses(node, used);
    std::erase_if(model.weights, [&](const auto& weight) { return !used.contains(weight.slot); });
    for (auto& weight : model.weights)
      weight.trainable = weight.trainable && !statistics.contains(weight.slot);
    onnx::internal::note_last_uses(model.graph);
  }

  // Throws for a node without a kernel. Collects the statistics of normalizations.
  void check(const ImportedGraph& graph, std::set<size_t>& statistics) const {
    for (const ImportedNode& node : graph.nodes) {
      if (node.kernel == nullptr) {
        throw invalid_argument(
            fmt::format("not supported: SavedModel: the operation of the node {} of {}", node.label,
                        place()),
            node.operation.starts_with("ParseExample")
                ? "give the features to a signature whose inputs are numbers: "
                  "build_raw_serving_input_receiver_fn() exports one"
                : "run the file in TensorFlow, or export the model with other operations");
      }
      if (node.operation.starts_with("FusedBatchNorm")) {
        for (size_t i = 3; i < std::min<size_t>(node.inputs.size(), 5); ++i)
          statistics.insert(node.inputs[i]);
      }
      for (const auto& [name, attribute] : node.attributes) {
        if (attribute.graph) check(*attribute.graph, statistics);
      }
    }
  }

  const SavedModelFile& file_;
  TensorflowVariables& variables_;
  SignatureModel read_;
  size_t nodes_ = 0, most_nodes_;
  std::map<std::string, size_t> variable_slots_;
  std::set<std::string> variable_names_;
};

}  // namespace

SignatureModel read_signature(const SavedModelFile& file, const SavedSignature& signature,
                              TensorflowVariables& variables, const ModelPlace& place) {
  return GraphReader(file, variables, place).read(signature);
}

}  // namespace muster::inline v0_1::imports

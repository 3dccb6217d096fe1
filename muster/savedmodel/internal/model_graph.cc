#include "muster/savedmodel/internal/model_graph.h"

#include <utility>

#include "muster/savedmodel/internal/dtypes.h"
#include "muster/savedmodel/internal/operations.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

class ModelWriter {
 public:
  ModelWriter(const ::onnx::GraphProto& model, TensorflowGraph& graph)
      : model_(model), graph_(graph) {
    note_forms(model);
    for (const auto& tensor : model.initializer()) {
      known_.forms[tensor.name()] = {tensorflow_dtype(tensor.data_type()),
                                     {tensor.dims().begin(), tensor.dims().end()}};
      known_.constants[tensor.name()] = &tensor;
    }
  }

  WrittenModel write(const std::set<std::string>& weights,
                     const std::map<std::string, std::string>& inputs) {
    known_.names = inputs;
    known_.weights = weights;
    for (const auto& node : model_.node()) write_node(node);
    WrittenModel written;
    written.variables = std::move(known_.variables);
    for (const auto& output : model_.output())
      written.outputs[output.name()] = known_.names.at(output.name());
    return written;
  }

 private:
  // The forms of the values of a graph, and of the graphs in it.
  void note_forms(const ::onnx::GraphProto& graph) {
    for (const auto* values : {&graph.input(), &graph.output(), &graph.value_info()}) {
      for (const auto& value : *values) note_form(value);
    }
    for (const auto& node : graph.node()) {
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) note_forms(attribute.g());
      }
    }
  }

  void note_form(const ::onnx::ValueInfoProto& value) {
    const auto& tensor = value.type().tensor_type();
    if (!tensor.has_shape()) return;
    ValueForm form{tensorflow_dtype(tensor.elem_type()), {}};
    for (const auto& dim : tensor.shape().dim())
      form.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    known_.forms[value.name()] = form;
  }

  void write_node(const ::onnx::NodeProto& node) {
    Call call(node, graph_, known_);
    if (node.op_type() == "Loop") return write_loop(node, call);
    const auto found = operation_map().find(node.op_type());
    if (found == operation_map().end() || !node.domain().empty())
      call.refuse("has no counterpart in TensorFlow here");
    found->second(call);
  }

  // A loop over so many steps: a function of the step, the number of steps, what each step changes,
  // and lists of what the steps give, which are stacked.
  void write_loop(const ::onnx::NodeProto& node, Call& call) {
    const ::onnx::GraphProto& body = node.attribute(0).g();
    const int states = node.input_size() - 2, lists = node.output_size() - states;
    const std::string count = call.in(0);
    std::vector<std::string> initial{graph_.scalar(0, BundleDtype::kInt64), count};
    for (int i = 0; i < states; ++i) initial.push_back(call.in(static_cast<size_t>(2 + i)));
    const std::string size = call.cast(count, BundleDtype::kInt32);
    for (int i = 0; i < lists; ++i) {
      const ValueForm& element = known_.forms.at(body.output(1 + states + i).name());
      initial.push_back(graph_.add("TensorListReserve", {graph_.int32s(element.shape), size},
                                   {{"element_dtype", type_value(element.dtype)},
                                    {"shape_type", type_value(BundleDtype::kInt32)}},
                                   kVariant));
    }
    std::vector<BundleDtype> dtypes;
    for (const std::string& value : initial) dtypes.push_back(graph_.dtype(value));
    const TensorflowGraph::Function step = write_body(body, states, lists, dtypes);
    for (const std::string& value : step.captures) {
      initial.push_back(value);
      dtypes.push_back(graph_.dtype(value));
    }
    const std::string condition = graph_.add_less_than(dtypes);
    Call after(node, graph_, known_);  // the names of what follows begin as this node's again
    const auto results = graph_.add_with_outputs("StatelessWhile", initial,
                                                 {{"T", type_values(dtypes)},
                                                  {"cond", function_value(condition)},
                                                  {"body", function_value(step.name)}},
                                                 dtypes);
    for (int i = 0; i < states; ++i)
      after.give(results.at(static_cast<size_t>(2 + i)), static_cast<size_t>(i));
    for (int i = 0; i < lists; ++i) {
      const ValueForm& element = known_.forms.at(body.output(1 + states + i).name());
      const std::string stacked = graph_.add(
          "TensorListStack",
          {results.at(static_cast<size_t>(2 + states + i)), graph_.int32s(element.shape)},
          {{"element_dtype", type_value(element.dtype)}, {"num_elements", integer_value(-1)}},
          element.dtype);
      after.give(stacked, static_cast<size_t>(states + i));
    }
  }

  TensorflowGraph::Function write_body(const ::onnx::GraphProto& body, int states, int lists,
                                       const std::vector<BundleDtype>& dtypes) {
    graph_.set_label("");
    const std::vector<std::string> arguments = graph_.begin_function(dtypes);
    known_.names[body.input(0).name()] = arguments[0];
    known_.names[body.input(1).name()] = graph_.scalar(1, BundleDtype::kBool);
    for (int i = 0; i < states; ++i)
      known_.names[body.input(2 + i).name()] = arguments[static_cast<size_t>(2 + i)];
    for (const auto& inner : body.node()) write_node(inner);
    const BundleDtype kInt64 = BundleDtype::kInt64;
    std::vector<std::string> results{graph_.add("AddV2", {arguments[0], graph_.scalar(1, kInt64)},
                                                {{"T", type_value(kInt64)}}, kInt64),
                                     arguments[1]};
    for (int i = 0; i < states; ++i) results.push_back(known_.names.at(body.output(1 + i).name()));
    const std::string place =
        graph_.add("Cast", {arguments[0]},
                   {{"SrcT", type_value(kInt64)}, {"DstT", type_value(BundleDtype::kInt32)}},
                   BundleDtype::kInt32);
    for (int i = 0; i < lists; ++i) {
      const std::string item = known_.names.at(body.output(1 + states + i).name());
      results.push_back(graph_.add("TensorListSetItem",
                                   {arguments[static_cast<size_t>(2 + states + i)], place, item},
                                   {{"element_dtype", type_value(graph_.dtype(item))}}, kVariant));
    }
    return graph_.end_function("while_body", results);
  }

  const ::onnx::GraphProto& model_;
  TensorflowGraph& graph_;
  KnownValues known_;
};

}  // namespace

WrittenModel write_model(const ::onnx::GraphProto& model, const std::set<std::string>& weights,
                         const std::map<std::string, std::string>& inputs, TensorflowGraph& graph) {
  return ModelWriter(model, graph).write(weights, inputs);
}

}  // namespace muster::inline v0_1::saved_model::internal

#include "muster/layers/model_graph.h"

#include <fmt/format.h>

#include <utility>

#include "muster/layers/internal/functional_impl.h"
#include "muster/layers/internal/mixed_precision_impl.h"
#include "muster/layers/internal/model_layers.h"

namespace muster::inline v0_1 {
namespace {

using internal::GraphLayer;
using internal::GraphNode;

// A layer that is called several times has a node for each call, in a scope of its name.
std::string node_name(const std::string& scope, const GraphLayer& layer, size_t call) {
  std::string name = scope.empty() ? layer.name : scope + "/" + layer.name;
  return layer.calls.size() == 1 ? name : fmt::format("{}/call_{}", name, call);
}

formats::NodeDef node_of(const GraphLayer& layer, size_t number, const std::string& scope,
                         const std::vector<GraphLayer>& layers) {
  const GraphNode& call = *layer.calls[number];
  formats::NodeDef node{.name = node_name(scope, layer, number), .op = internal::keras_type(call)};
  const auto add = [&](const SymbolicTensor& value) {
    const auto source = internal::source_of(value, layers);
    if (!source) return;
    std::string name = node_name(scope, *source->first, source->second);
    node.inputs.push_back(internal::index_of(value) == 0
                              ? std::move(name)
                              : fmt::format("{}:{}", name, internal::index_of(value)));
  };
  for (const SymbolicTensor& value : call.inputs.tensors) add(value);
  for (const SymbolicTensor& value : call.inputs.state) add(value);
  for (size_t i = 0; i < call.tensors; ++i) node.output_shapes.push_back(call.outputs[i].shape);
  if (number > 0) return node;
  const internal::ParameterCount own = internal::count_parameters(call.variables);
  node.parameters = own.trainable + own.non_trainable;
  return node;
}

}  // namespace

formats::GraphDef model_graph(const Layer& model, const std::vector<SymbolicTensor>& inputs,
                              const std::string& scope) {
  if (const auto* mixed = dynamic_cast<const internal::MixedPrecisionImpl*>(&model.impl()))
    return model_graph(mixed->layer(), inputs, scope);
  const bool functional = dynamic_cast<const internal::FunctionalImpl*>(&model.impl()) != nullptr;
  const internal::ModelLayers described = internal::model_layers(
      model, functional ? std::vector<SymbolicTensor>() : inputs, "model_graph");
  formats::GraphDef graph;
  for (const GraphLayer& layer : described.layers) {
    for (size_t call = 0; call < layer.calls.size(); ++call)
      graph.nodes.push_back(node_of(layer, call, scope, described.layers));
  }
  return graph;
}

}  // namespace muster::inline v0_1

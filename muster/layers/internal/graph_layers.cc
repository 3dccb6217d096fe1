#include "muster/layers/internal/graph_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {
namespace {

// A walk from the outputs up to the Inputs.
struct Walk {
  std::unordered_map<uint64_t, size_t> layers{};  // by id: the place in which it was met
  std::vector<const GraphNode*> finished{};       // each after the nodes that it needs
  std::unordered_set<const GraphNode*> known{};

  void visit(const GraphNode& node) {
    if (!known.insert(&node).second) return;
    layers.emplace(node.identity.id, layers.size());
    for (const SymbolicTensor& value : node.inputs.tensors) visit(*node_of(value));
    for (const SymbolicTensor& value : node.inputs.state) visit(*node_of(value));
    finished.push_back(&node);
  }
};

// Returns how far each layer is from the outputs.
std::unordered_map<uint64_t, size_t> depths_of(const std::vector<const GraphNode*>& finished) {
  std::unordered_map<const GraphNode*, size_t> nodes;
  std::unordered_map<uint64_t, size_t> layers;
  for (auto each = finished.rbegin(); each != finished.rend(); ++each) {
    const GraphNode& node = **each;
    size_t& layer_depth = layers[node.identity.id];
    size_t& depth = nodes[&node];
    depth = layer_depth = std::max(depth, layer_depth);
    const size_t above = depth + 1;
    for (const auto* values : {&node.inputs.tensors, &node.inputs.state}) {
      for (const SymbolicTensor& value : *values) {
        size_t& other = nodes[node_of(value).get()];
        other = std::max(other, above);
      }
    }
  }
  return layers;
}

}  // namespace

std::vector<GraphLayer> layers_of(const Graph& graph,
                                  const std::unordered_map<uint64_t, std::string>& names) {
  Walk walk;
  for (const SymbolicTensor& output : graph.outputs()) walk.visit(*node_of(output));
  const auto depths = depths_of(walk.finished);
  std::map<std::pair<size_t, size_t>, GraphLayer> sorted;  // nearest to the outputs first
  for (const Graph::NodePtr& node : graph.nodes()) {
    const uint64_t id = node->identity.id;
    const size_t behind = walk.layers.size() - walk.layers.at(id);
    GraphLayer& layer = sorted[{depths.at(id), behind}];
    layer.name = names.at(id);
    layer.calls.push_back(node.get());
  }
  std::vector<GraphLayer> layers;
  for (auto each = sorted.rbegin(); each != sorted.rend(); ++each)
    layers.push_back(std::move(each->second));
  return layers;
}

bool is_sequential(const std::vector<GraphLayer>& layers) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].calls.size() != 1) return false;
    const SymbolicValues& inputs = layers[i].calls[0]->inputs;
    if (!inputs.state.empty() || inputs.tensors.size() != (i == 0 ? 0 : 1)) return false;
    if (i > 0 && node_of(inputs.tensors[0]).get() != layers[i - 1].calls[0]) return false;
  }
  return true;
}

void check_shared(const Graph& graph) {
  std::unordered_map<uint64_t, const GraphNode*> first_calls;
  for (const Graph::NodePtr& node : graph.nodes()) {
    const GraphNode& call = *node;
    const GraphNode& first = *first_calls.emplace(call.identity.id, node.get()).first->second;
    for (size_t i = 0; i < call.variables.size() && i < first.variables.size(); ++i) {
      const VariableSpec &one = first.variables[i], &other = call.variables[i];
      if (one.shape == other.shape && one.dtype == other.dtype) continue;
      // All calls above this one agree, so that part of the graph has names.
      std::vector<SymbolicTensor> inputs = first.inputs.tensors;
      inputs.insert(inputs.end(), call.inputs.tensors.begin(), call.inputs.tensors.end());
      const auto names = probe_graph(Graph(inputs), &call.identity).names;
      throw invalid_argument(
          fmt::format("Functional: layer {} is called on {} and on {}; it would need two {}: {} "
                      "and {}",
                      names.at(call.identity.id), describe_sources(first.inputs.tensors, names),
                      describe_sources(call.inputs.tensors, names),
                      one.name.substr(one.name.rfind('/') + 1), muster::describe(one.shape),
                      muster::describe(other.shape)),
          "calls of one layer share its weights; make a second layer for another shape");
    }
  }
}

ParameterCount count_parameters(const std::vector<VariableSpec>& variables) {
  ParameterCount count;
  for (const VariableSpec& variable : variables) {
    int64_t elements = 1;
    for (const int64_t size : variable.shape) elements *= size;
    (variable.trainable ? count.trainable : count.non_trainable) += elements;
  }
  return count;
}

}  // namespace muster::inline v0_1::internal

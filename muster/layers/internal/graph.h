// A Graph is the part between symbolic inputs and outputs: the calls in the order they were made,
// ready to run on tensors. Thread safety: immutable; it may run in several contexts at once.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/layers/internal/graph_node.h"
#include "muster/layers/internal/layer_run.h"

namespace muster::inline v0_1::internal {

class Graph {
 public:
  using NodePtr = std::shared_ptr<const GraphNode>;

  // Takes all that `outputs` need down to the Inputs, whichever these are.
  explicit Graph(std::vector<SymbolicTensor> outputs);
  // The same between `inputs` and `outputs`. Throws InvalidArgument "Functional: ..." unless the
  // inputs are Inputs, each once, just those that the outputs need.
  Graph(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs);

  const std::vector<SymbolicTensor>& inputs() const { return inputs_; }
  const std::vector<SymbolicTensor>& outputs() const { return outputs_; }
  // All of them, Inputs too, in the order they were made.
  const std::vector<NodePtr>& nodes() const { return nodes_; }

  // Calls the layers. `inputs` holds a tensor for each Input, in their order.
  LayerOutputs run(const LayerInputs& inputs, CallContext& context) const;

 private:
  // Values are tensors (or pieces of state) on their way; each has a place.
  struct Step {
    const GraphNode* node = nullptr;
    LayerRun run{};  // runs the node and the nodes after it
    std::vector<size_t> tensors{}, state{}, outputs{};
    size_t output_tensors = 0;
    std::vector<size_t> dead{};  // that no later step needs
  };
  struct Values;

  void check_inputs() const;
  void collect();
  void plan();
  std::vector<size_t> count_uses() const;
  // Returns the only node that needs this one's output, and needs nothing else.
  const GraphNode* follower_of(const GraphNode& node, const std::vector<size_t>& uses) const;
  // Returns the node and the nodes that directly follow it, as many as may run together.
  std::vector<const GraphNode*> row_from(const GraphNode& node,
                                         const std::vector<size_t>& uses) const;
  size_t place_of(const SymbolicTensor& value) const;
  void run_step(const Step& step, Values& values, CallContext& context) const;

  std::vector<SymbolicTensor> inputs_;
  std::vector<SymbolicTensor> outputs_;
  std::vector<NodePtr> nodes_;
  std::unordered_map<const GraphNode*, size_t> first_place_;  // of the node's outputs
  size_t places_ = 0;
  std::vector<Step> steps_;
};

struct ProbedGraph {
  // By the id of the identity: the names that layers have in a context where the graph runs alone,
  // and "input_1", "input_2", ... for Inputs without one.
  std::unordered_map<uint64_t, std::string> names{};
  std::vector<VariableSpec> variables{};  // each once
};
// Runs the graph on no rows, as probe() does. `also` gets the name of a layer that is called next.
// Throws InvalidArgument if two have the same name.
ProbedGraph probe_graph(const Graph& graph, const LayerIdentity* also = nullptr);

}  // namespace muster::inline v0_1::internal

// The layers of a graph, in the order and with the names Keras shows.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/layers/internal/graph.h"

namespace muster::inline v0_1::internal {

// A layer or an Input, with its calls in the order they were made.
struct GraphLayer {
  std::string name{};
  std::vector<const GraphNode*> calls{};
};

// Returns each layer of the graph once. The layers furthest from the outputs come first; a shared
// one counts where it is furthest; and equally far ones come in the order of a walk from the
// outputs. `names` are the names of probe_graph().
std::vector<GraphLayer> layers_of(const Graph& graph,
                                  const std::unordered_map<uint64_t, std::string>& names);

// Whether each layer takes only the output of the layer before it.
bool is_sequential(const std::vector<GraphLayer>& layers);

// Throws InvalidArgument if the calls of a layer ask for variables of different shapes. The graph
// cannot run then.
void check_shared(const Graph& graph);

struct ParameterCount {
  int64_t trainable = 0;
  int64_t non_trainable = 0;
};
ParameterCount count_parameters(const std::vector<VariableSpec>& variables);

}  // namespace muster::inline v0_1::internal

// Functional has a name here, so that a summary sees its graph.
#pragma once

#include <string>
#include <vector>

#include "muster/layers/internal/graph_layers.h"

namespace muster::inline v0_1::internal {

class FunctionalImpl final : public LayerImpl {
 public:
  FunctionalImpl(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs,
                 std::string name);
  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override;

  const Graph& graph() const { return graph_; }
  const std::vector<std::string>& input_names() const { return input_names_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  // Inputs are among them.
  const std::vector<GraphLayer>& layers() const { return layers_; }
  const ParameterCount& parameters() const { return parameters_; }

 private:
  void check(const LayerInputs& inputs, CallContext& context) const;

  Graph graph_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<GraphLayer> layers_;
  ParameterCount parameters_;
};

}  // namespace muster::inline v0_1::internal

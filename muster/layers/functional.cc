#include "muster/layers/functional.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/functional_impl.h"

namespace muster::inline v0_1 {
namespace internal {

FunctionalImpl::FunctionalImpl(std::vector<SymbolicTensor> inputs,
                               std::vector<SymbolicTensor> outputs, std::string name)
    : LayerImpl("model", std::move(name)), graph_(std::move(inputs), std::move(outputs)) {
  // Running the graph would fail with less to say.
  check_shared(graph_);
  const ProbedGraph probed = probe_graph(graph_);
  layers_ = layers_of(graph_, probed.names);
  parameters_ = count_parameters(probed.variables);
  for (const SymbolicTensor& input : graph_.inputs())
    input_names_.push_back(probed.names.at(internal::node_of(input)->identity.id));
  for (const SymbolicTensor& output : graph_.outputs()) {
    const std::string& layer = probed.names.at(internal::node_of(output)->identity.id);
    std::string name = layer;
    for (int copy = 1; std::ranges::find(output_names_, name) != output_names_.end(); ++copy)
      name = fmt::format("{}:{}", layer, copy);
    output_names_.push_back(std::move(name));
  }
}

LayerOutputs FunctionalImpl::call(const LayerInputs& inputs, CallContext& context) const {
  check(inputs, context);
  return graph_.run(inputs, context);
}

void FunctionalImpl::check(const LayerInputs& inputs, CallContext& context) const {
  const auto refuse = [&](const std::string& text, const std::string& hint) {
    throw invalid_argument(fmt::format("layer {}: {}", context.name_of(identity()), text), hint);
  };
  const std::vector<SymbolicTensor>& expected = graph_.inputs();
  if (inputs.tensors.size() != expected.size()) {
    refuse(fmt::format("expected {} tensors, was given {}", expected.size(), inputs.tensors.size()),
           "call it with LayerInputs{.tensors = {a, b}}, a tensor for each of its inputs");
  }
  if (!inputs.state.empty()) {
    refuse("was given a state, and has none",
           "give the state to the recurrent layer it belongs to, through an Input");
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const Tensor& tensor = inputs.tensors[i];
    const Shape& shape = expected[i].shape();
    bool fits = tensor.scalar_type() == expected[i].dtype() &&
                tensor.dim() == static_cast<int64_t>(shape.size());
    for (size_t axis = 0; fits && axis < shape.size(); ++axis)
      fits = shape[axis] < 0 || tensor.size(static_cast<int64_t>(axis)) == shape[axis];
    if (fits) continue;
    refuse(fmt::format("expected {} for {}, was given {}", muster::describe(expected[i]),
                       input_names_[i], describe(tensor)),
           "give the tensors in the order of the inputs; Input() takes the shape and the dtype");
  }
}

}  // namespace internal

namespace {

const internal::FunctionalImpl& functional(const Layer& layer) {
  return static_cast<const internal::FunctionalImpl&>(layer.impl());
}

}  // namespace

Functional::Functional(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs,
                       std::string name)
    : Layer(std::make_shared<internal::FunctionalImpl>(std::move(inputs), std::move(outputs),
                                                       std::move(name))) {}

std::optional<Functional> Functional::of(const Layer& layer) {
  if (dynamic_cast<const internal::FunctionalImpl*>(&layer.impl()) == nullptr) return std::nullopt;
  return Functional(layer);
}

const std::vector<SymbolicTensor>& Functional::inputs() const {
  return functional(*this).graph().inputs();
}

const std::vector<SymbolicTensor>& Functional::outputs() const {
  return functional(*this).graph().outputs();
}

const std::vector<std::string>& Functional::input_names() const {
  return functional(*this).input_names();
}

const std::vector<std::string>& Functional::output_names() const {
  return functional(*this).output_names();
}

std::vector<Layer> Functional::layers() const {
  std::vector<Layer> layers;
  for (const internal::GraphLayer& layer : functional(*this).layers()) {
    if (layer.calls[0]->layer) layers.push_back(*layer.calls[0]->layer);
  }
  return layers;
}

int64_t Functional::count_params() const {
  const internal::ParameterCount& count = functional(*this).parameters();
  return count.trainable + count.non_trainable;
}

}  // namespace muster::inline v0_1

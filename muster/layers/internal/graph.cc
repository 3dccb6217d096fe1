#include "muster/layers/internal/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/graph_probe.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

struct Graph::Values {
  std::vector<Tensor> tensors{};
  std::vector<Tensor> masks{};
};

namespace {

// "the input 1, age (float32[None, 3])"
std::string in_words(size_t index, const SymbolicTensor& input) {
  const std::string& name = node_of(input)->identity.given_name;
  return fmt::format("the input {}{} ({})", index, name.empty() ? name : ", " + name,
                     describe(input));
}

}  // namespace

Graph::Graph(std::vector<SymbolicTensor> outputs) : outputs_(std::move(outputs)) {
  collect();
  for (const NodePtr& node : nodes_) {
    if (!node->layer) inputs_.push_back(symbolic_output(node, 0));
  }
  plan();
}

Graph::Graph(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  if (inputs_.empty()) throw invalid_argument("Functional: inputs is empty", "give it an Input()");
  if (outputs_.empty())
    throw invalid_argument("Functional: outputs is empty", "give it what a layer made of inputs");
  check_inputs();
  collect();
  plan();
}

void Graph::check_inputs() const {
  std::unordered_set<const GraphNode*> given;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const SymbolicTensor& input = inputs_[i];
    const std::string text = "Functional: " + in_words(i, input);
    if (node_of(input)->layer) {
      throw invalid_argument(
          fmt::format("{} is what layer {} gives", text,
                      probe_graph(Graph(std::vector{input})).names.at(node_of(input)->identity.id)),
          "inputs are what Input() gave");
    }
    if (!given.insert(node_of(input).get()).second)
      throw invalid_argument(text + " is the same as one before it", "give each Input once");
  }
  std::unordered_set<const GraphNode*> needed;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Graph above(std::vector{outputs_[i]});
    for (const SymbolicTensor& input : above.inputs()) {
      needed.insert(node_of(input).get());
      if (given.count(node_of(input).get()) > 0) continue;
      const auto names = probe_graph(above).names;
      throw invalid_argument(
          fmt::format("Functional: graph disconnected: the output {} ({} from layer {}) needs the "
                      "Input {} ({}), which is not among the inputs",
                      i, describe(outputs_[i]), names.at(node_of(outputs_[i])->identity.id),
                      names.at(node_of(input)->identity.id), describe(input)),
          "add it to the inputs");
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (needed.count(node_of(inputs_[i]).get()) > 0) continue;
    throw invalid_argument(fmt::format("Functional: no output needs {}", in_words(i, inputs_[i])),
                           "leave it out of the inputs, or use it");
  }
}

void Graph::collect() {
  std::unordered_set<const GraphNode*> known;
  std::vector<NodePtr> open;
  const auto add = [&](const SymbolicTensor& value) {
    if (known.insert(node_of(value).get()).second) open.push_back(node_of(value));
  };
  for (const SymbolicTensor& output : outputs_) add(output);
  while (!open.empty()) {
    nodes_.push_back(std::move(open.back()));
    open.pop_back();
    const GraphNode& node = *nodes_.back();
    for (const SymbolicTensor& value : node.inputs.tensors) add(value);
    for (const SymbolicTensor& value : node.inputs.state) add(value);
  }
  // A node is made after the nodes it needs.
  std::sort(nodes_.begin(), nodes_.end(),
            [](const NodePtr& a, const NodePtr& b) { return a->order < b->order; });
  for (const NodePtr& node : nodes_) {
    first_place_[node.get()] = places_;
    places_ += node->outputs.size();
  }
}

size_t Graph::place_of(const SymbolicTensor& value) const {
  return first_place_.at(node_of(value).get()) + index_of(value);
}

std::vector<size_t> Graph::count_uses() const {
  std::vector<size_t> uses(places_, 0);
  for (const NodePtr& node : nodes_) {
    for (const SymbolicTensor& value : node->inputs.tensors) ++uses[place_of(value)];
    for (const SymbolicTensor& value : node->inputs.state) ++uses[place_of(value)];
  }
  for (const SymbolicTensor& output : outputs_) ++uses[place_of(output)];
  return uses;
}

const GraphNode* Graph::follower_of(const GraphNode& node, const std::vector<size_t>& uses) const {
  if (node.outputs.size() != 1 || uses[first_place_.at(&node)] != 1) return nullptr;
  for (const NodePtr& each : nodes_) {
    const std::vector<SymbolicTensor>& inputs = each->inputs.tensors;
    if (!each->layer || inputs.size() != 1 || node_of(inputs[0]).get() != &node) continue;
    return each.get();
  }
  return nullptr;
}

std::vector<const GraphNode*> Graph::row_from(const GraphNode& node,
                                              const std::vector<size_t>& uses) const {
  std::vector<const GraphNode*> row{&node};
  while (row.size() < LayerRun::kMostLayers) {
    const GraphNode* next = follower_of(*row.back(), uses);
    if (next == nullptr) break;
    row.push_back(next);
  }
  return row;
}

void Graph::plan() {
  const std::vector<size_t> uses = count_uses();
  std::unordered_set<const GraphNode*> joined;
  for (const NodePtr& node : nodes_) {
    if (!node->layer || joined.count(node.get()) > 0) continue;
    Step step{.node = node.get()};
    for (const SymbolicTensor& value : node->inputs.tensors)
      step.tensors.push_back(place_of(value));
    for (const SymbolicTensor& value : node->inputs.state) step.state.push_back(place_of(value));
    const std::vector<const GraphNode*> row = row_from(*node, uses);
    std::vector<const LayerImpl*> layers;
    for (const GraphNode* each : row) layers.push_back(&each->layer->impl());
    step.run = LayerRun(layers);
    for (size_t i = 1; i < step.run.size(); ++i) joined.insert(row[i]);
    const GraphNode* last = row[std::max<size_t>(step.run.size(), 1) - 1];
    for (size_t i = 0; i < last->outputs.size(); ++i)
      step.outputs.push_back(first_place_.at(last) + i);
    step.output_tensors = last->tensors;
    steps_.push_back(std::move(step));
  }
  // A value is released after the step that needs it last.
  std::vector<bool> needed(places_, false);
  for (const SymbolicTensor& output : outputs_) needed[place_of(output)] = true;
  for (size_t s = steps_.size(); s-- > 0;) {
    Step& step = steps_[s];
    for (const std::vector<size_t>* places : {&step.tensors, &step.state, &step.outputs}) {
      for (const size_t place : *places) {
        if (!needed[place]) step.dead.push_back(place);
        needed[place] = true;
      }
    }
  }
}

LayerOutputs Graph::run(const LayerInputs& inputs, CallContext& context) const {
  Values values{.tensors = std::vector<Tensor>(places_), .masks = std::vector<Tensor>(places_)};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    values.tensors[place_of(inputs_[i])] = inputs.tensors[i];
    if (i < inputs.masks.size()) values.masks[place_of(inputs_[i])] = inputs.masks[i];
  }
  for (const Step& step : steps_) run_step(step, values, context);
  LayerOutputs outputs;
  bool masked = false;
  for (const SymbolicTensor& output : outputs_) {
    outputs.tensors.push_back(values.tensors[place_of(output)]);
    outputs.masks.push_back(values.masks[place_of(output)]);
    masked = masked || outputs.masks.back().defined();
  }
  if (!masked) outputs.masks.clear();
  return outputs;
}

void Graph::run_step(const Step& step, Values& values, CallContext& context) const {
  LayerInputs inputs;
  bool masked = false;
  for (const size_t place : step.tensors) {
    inputs.tensors.push_back(values.tensors[place]);
    inputs.masks.push_back(values.masks[place]);
    masked = masked || inputs.masks.back().defined();
  }
  if (!masked) inputs.masks.clear();
  for (const size_t place : step.state) inputs.state.push_back(values.tensors[place]);
  LayerOutputs outputs =
      step.run ? step.run.call(inputs, context) : (*step.node->layer)(inputs, context);
  const size_t state = step.outputs.size() - step.output_tensors;
  if (outputs.tensors.size() != step.output_tensors || outputs.state.size() != state) {
    throw invalid_argument(
        fmt::format("layer {} gives {} tensors and {} of state; when the graph was built it gave "
                    "{} and {}",
                    context.name_of(step.node->identity), outputs.tensors.size(),
                    outputs.state.size(), step.output_tensors, state),
        "a layer of a graph gives as many tensors in every call");
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const bool is_tensor = i < step.output_tensors;
    const size_t place = step.outputs[i];
    values.tensors[place] =
        std::move(is_tensor ? outputs.tensors[i] : outputs.state[i - step.output_tensors]);
    if (is_tensor && i < outputs.masks.size()) values.masks[place] = outputs.masks[i];
  }
  for (const size_t place : step.dead) {
    values.tensors[place].reset();
    values.masks[place].reset();
  }
}

namespace {

void name_inputs(const Graph& graph, std::unordered_map<uint64_t, std::string>& names) {
  std::unordered_set<std::string> taken;
  for (const auto& [id, name] : names) taken.insert(name);
  size_t count = 0;
  for (const auto& node : graph.nodes()) {
    if (node->layer) continue;
    std::string name = node->identity.given_name;
    if (name.empty()) name = fmt::format("input_{}", ++count);
    if (!taken.insert(name).second) {
      throw invalid_argument(
          fmt::format("an Input is named \"{}\", and so is another one, or a layer", name),
          "give each Input and each layer of a graph its own name, or none");
    }
    names[node->identity.id] = std::move(name);
  }
}

}  // namespace

ProbedGraph probe_graph(const Graph& graph, const LayerIdentity* also) {
  std::vector<SymbolicSpec> inputs;
  for (const SymbolicTensor& input : graph.inputs())
    inputs.push_back(node_of(input)->outputs[index_of(input)]);
  ProbedGraph probed;
  probe_rows([&](int64_t rows) {
    const at::NoGradGuard no_grad;
    probed = {};
    ProbeStore store;
    StepContext context(store, /*seed=*/0);
    context.set_for_shapes_alone();
    graph.run(probe_inputs(inputs, {}, rows, kProbeLength), context);
    for (const auto& node : graph.nodes()) {
      if (node->layer) probed.names[node->identity.id] = context.name_of(node->identity);
    }
    if (also != nullptr) probed.names[also->id] = context.name_of(*also);
    for (const auto& variable : store.variables()) probed.variables.push_back(variable->spec());
  });
  name_inputs(graph, probed.names);
  return probed;
}

}  // namespace muster::inline v0_1::internal

#include "muster/layers/internal/model_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/layers/internal/functional_impl.h"
#include "muster/layers/internal/sequential_impl.h"

namespace muster::inline v0_1::internal {
namespace {

void check_model_inputs(const Layer& model, const std::vector<SymbolicTensor>& inputs,
                        const char* asker, bool functional) {
  const LayerIdentity& identity = model.impl().identity();
  const std::string name = identity.given_name.empty() ? identity.class_name : identity.given_name;
  if (functional) {
    if (inputs.empty()) return;
    throw invalid_argument(
        fmt::format("{}: {} inputs were given for the Functional {}", asker, inputs.size(), name),
        "omit them: it has its own");
  }
  if (inputs.empty()) {
    throw invalid_argument(fmt::format("{}: inputs is empty, for the layer {}", asker, name),
                           "give its inputs: model.summary({Input({784})})");
  }
  for (const SymbolicTensor& input : inputs) {
    if (!node_of(input)->layer) continue;
    throw invalid_argument(fmt::format("{}: the input {} is what a layer ({}) gives", asker,
                                       describe(input), node_of(input)->identity.class_name),
                           "inputs are what Input() gave");
  }
}

}  // namespace

ModelLayers model_layers(const Layer& model, const std::vector<SymbolicTensor>& inputs,
                         const char* asker) {
  const auto* functional = dynamic_cast<const FunctionalImpl*>(&model.impl());
  check_model_inputs(model, inputs, asker, functional != nullptr);
  if (functional != nullptr) {
    return {.outputs = functional->graph().outputs(),
            .layers = functional->layers(),
            .parameters = functional->parameters(),
            .functional = true};
  }
  SymbolicValues values{.tensors = inputs};
  if (const auto* sequential = dynamic_cast<const SequentialImpl*>(&model.impl())) {
    for (const Layer& layer : sequential->layers())
      values = layer(SymbolicValues{.tensors = values.tensors});
  } else {
    values = model(values);
  }
  const Graph graph(values.tensors);
  check_shared(graph);
  const ProbedGraph probed = probe_graph(graph);
  return {.outputs = values.tensors,
          .layers = layers_of(graph, probed.names),
          .parameters = count_parameters(probed.variables)};
}

std::optional<std::pair<const GraphLayer*, size_t>> source_of(
    const SymbolicTensor& value, const std::vector<GraphLayer>& layers) {
  for (const GraphLayer& layer : layers) {
    const auto call = std::find(layer.calls.begin(), layer.calls.end(), node_of(value).get());
    if (call != layer.calls.end())
      return std::pair{&layer, static_cast<size_t>(call - layer.calls.begin())};
  }
  return std::nullopt;
}

std::string keras_type(const GraphNode& node) {
  if (!node.layer) return "InputLayer";
  if (dynamic_cast<const FunctionalImpl*>(&node.layer->impl())) return "Functional";
  const std::vector<std::string> words = split(node.identity.class_name, '_');
  std::string type;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    constexpr std::string_view kShort[] = {"elu", "lstm", "gru", "rnn", "lu"};
    if (std::find(std::begin(kShort), std::end(kShort), word) != std::end(kShort)) {
      for (const char letter : word) type += static_cast<char>(std::toupper(letter));
      continue;
    }
    for (size_t l = 0; l < word.size(); ++l) {
      const bool axes = l > 0 && word[l] == 'd' && std::isdigit(word[l - 1]);  // 2D
      type += l == 0 || axes ? static_cast<char>(std::toupper(word[l])) : word[l];
    }
  }
  return type;
}

}  // namespace muster::inline v0_1::internal

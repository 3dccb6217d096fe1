#include "muster/layers/internal/graph_node.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/graph.h"
#include "muster/layers/internal/graph_probe.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"

namespace muster::inline v0_1::internal {
namespace {

std::vector<std::string> size_names(const Shape& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(size < 0 ? "None" : std::to_string(size));
  return sizes;
}

std::vector<SymbolicTensor> tensors_and_state(const SymbolicValues& values) {
  std::vector<SymbolicTensor> all = values.tensors;
  all.insert(all.end(), values.state.begin(), values.state.end());
  return all;
}

std::vector<SymbolicSpec> specs_of(const std::vector<SymbolicTensor>& values) {
  std::vector<SymbolicSpec> specs;
  for (const SymbolicTensor& value : values)
    specs.push_back(node_of(value)->outputs[index_of(value)]);
  return specs;
}

// Names the layer whose output this layer does not take. The message of the layer itself begins
// with its name, which is another one when it is called alone.
[[noreturn]] void refuse(const LayerIdentity& layer, const SymbolicValues& inputs,
                         const std::string& why, const std::string& hint) {
  const std::vector<SymbolicTensor> all = tensors_and_state(inputs);
  const auto names = probe_graph(Graph(all), &layer).names;
  const size_t prefix = why.starts_with("layer ") ? why.find(": ") : std::string::npos;
  throw invalid_argument(
      fmt::format("layer {} does not take {}: {}", names.at(layer.id), describe_sources(all, names),
                  prefix == std::string::npos ? why : why.substr(prefix + 2)),
      hint + (hint.empty() ? "" : "; ") + "it was tried on two examples, made up for that");
}

}  // namespace

uint64_t next_order() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::string keras_shape(const Shape& shape) {
  // As Python writes tuples.
  return fmt::format("({}{})", fmt::join(size_names(shape), ", "), shape.size() == 1 ? "," : "");
}

std::string SymbolicSpec::describe() const {
  return fmt::format("{}[{}]", dtype_name(dtype), fmt::join(size_names(shape), ", "));
}

std::string describe_sources(const std::vector<SymbolicTensor>& values,
                             const std::unordered_map<uint64_t, std::string>& names) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    const GraphNode& node = *node_of(values[i]);
    text += fmt::format("{}{} from {} {}",
                        i == 0                  ? ""
                        : i + 1 < values.size() ? ", "
                                                : " and ",
                        muster::describe(values[i]), node.layer ? "layer" : "Input",
                        names.at(node.identity.id));
  }
  return text;
}

SymbolicValues call_on_symbols(const Layer& layer, const SymbolicValues& inputs) {
  const LayerIdentity& identity = layer.impl().identity();
  if (inputs.tensors.empty()) {
    throw invalid_argument(
        fmt::format("a layer ({}) was called on no symbolic tensor", identity.class_name),
        "call it on what Input() or another layer gave");
  }
  Probed probed;
  try {
    probed = probe(layer, specs_of(inputs.tensors), specs_of(inputs.state));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    refuse(identity, inputs, error.message(), error.hint());
  } catch (const c10::Error& error) {
    refuse(identity, inputs, text_of(error), {});
  } catch (const std::runtime_error& error) {  // LibTorch throws these too
    refuse(identity, inputs, error.what(), {});
  }
  auto node = std::make_shared<GraphNode>(GraphNode{.order = next_order(),
                                                    .layer = layer,
                                                    .identity = identity,
                                                    .inputs = inputs,
                                                    .outputs = std::move(probed.outputs),
                                                    .tensors = probed.tensors,
                                                    .variables = std::move(probed.variables)});
  SymbolicValues outputs;
  for (size_t i = 0; i < node->outputs.size(); ++i)
    (i < node->tensors ? outputs.tensors : outputs.state).push_back(symbolic_output(node, i));
  return outputs;
}

}  // namespace muster::inline v0_1::internal

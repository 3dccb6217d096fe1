#include "muster/imports/internal/graph_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/imports/internal/kernels.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

// The tensor, made of numbers of C++, which a trace takes for expressions of sizes.
Tensor of_sizes(const Tensor& known) {
  std::vector<Tensor> each;
  Tensor numbers;
  {
    const Apart apart;
    numbers = known.to(at::kDouble).contiguous();
  }
  const bool floats = at::isFloatingType(known.scalar_type());
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    const double number = numbers.data_ptr<double>()[i];
    each.push_back(floats ? at::full({}, number, known.options())
                          : at::full({}, static_cast<int64_t>(number), known.options()));
  }
  if (each.empty()) return known;
  if (known.dim() == 0) return each.front();
  return at::stack(each).reshape(known.sizes());
}

// Numbers of 16 bits: LibTorch lacks many operations for them on the CPU. These compute in float32.
void run_narrow_or_wide(const ImportedNode& node, const std::vector<RunValue>& values,
                        const std::function<void(bool widens)>& compute,
                        std::vector<Tensor>& results) {
  std::atomic<bool>& widens = *node.widens;
  if (!widens) {
    try {
      return compute(false);
    } catch (const c10::Error& error) {
      if (std::string_view(error.what_without_backtrace()).find("not implemented for") ==
          std::string_view::npos)
        throw;
    }
  }
  DType narrow = at::kHalf;
  for (const size_t slot : node.inputs) {
    if (slot == kNoSlot || !values[slot].tensor.defined()) continue;
    if (has_16_bits(values[slot].tensor.scalar_type())) narrow = values[slot].tensor.scalar_type();
  }
  compute(true);
  widens = true;
  for (Tensor& result : results) {
    if (result.defined() && result.scalar_type() == at::kFloat) result = result.to(narrow);
  }
}

std::string forms_of(const std::vector<RunValue>& values, const ImportedNode& node) {
  std::vector<std::string> all;
  for (const size_t slot : node.inputs)
    all.push_back(
        slot == kNoSlot || !values[slot].tensor.defined() ? "none" : describe(values[slot].tensor));
  return join(all, ", ");
}

}  // namespace

GraphRun::GraphRun(const ImportedModel& model, const std::vector<Tensor>& weights)
    : model_(model), values_(model.slots), tracing_(is_tracing()) {
  for (size_t i = 0; i < model.weights.size(); ++i) {
    const ImportedWeight& weight = model.weights[i];
    values_[weight.slot] = {weight.is_variable ? weights[i] : weight.value, !weight.is_variable,
                            false};
    if (weight.is_variable) device_ = weights[i].device();
  }
}

std::vector<Tensor> GraphRun::run(const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) values_[model_.graph.inputs.at(i)] = {inputs[i]};
  if (!inputs.empty()) device_ = inputs.front().device();
  run(model_.graph);
  std::vector<Tensor> outputs;
  for (const size_t slot : model_.graph.outputs) {
    outputs.push_back(tensor_of(values_[slot]));
    if (!outputs.back().defined())
      throw invalid_argument(model_.place.path + ": an output is a list of tensors");
  }
  return outputs;
}

std::vector<RunValue> GraphRun::run(const ImportedGraph& graph,
                                    const std::vector<RunValue>& inputs) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) values_[graph.inputs[i]] = inputs.at(i);
  run(graph);
  std::vector<RunValue> outputs;
  for (const size_t slot : graph.outputs) outputs.push_back(values_[slot]);
  return outputs;
}

Tensor GraphRun::tensor_of(const RunValue& value) const {
  const Tensor& tensor = value.tensor;
  if (!tensor.defined()) return tensor;
  if (value.known && value.follows_size && tracing_ && is_tracing()) return of_sizes(tensor);
  return value.known && !device_.is_cpu() ? tensor.to(device_) : tensor;
}

void GraphRun::run(const ImportedGraph& graph) {
  for (const ImportedNode& node : graph.nodes) {
    try {
      run(node);
    } catch (const c10::Error& error) {
      throw invalid_argument(
          fmt::format("the node {} of {} cannot compute {}: {}", node.label, model_.place.path,
                      forms_of(values_, node), text_of(error)),
          "the inputs must be such as the model takes");
    }
  }
}

void GraphRun::run(const ImportedNode& node) {
  bool known = !node.kernel->has_graphs, follows = false;
  for (const size_t slot : node.inputs) {
    if (slot == kNoSlot || !values_[slot].tensor.defined()) continue;
    known = known && values_[slot].known;
    follows = follows || values_[slot].follows_size;
  }
  // Its shape follows sizes, so the trace must have the operation.
  if (tracing_ && node.kernel->sized && follows) known = false;
  std::vector<Tensor> results;
  std::vector<RunValue> given;
  bool knows_sizes = false;
  const auto compute = [&](bool widens) {
    NodeRun call(node, *this, widens);
    results = node.kernel->run(call);
    knows_sizes = call.knows_sizes();
    given = std::move(call.given());
  };
  {
    std::optional<Apart> apart;
    if (known) apart.emplace();
    const Device device = device_;
    if (known) device_ = at::kCPU;
    run_narrow_or_wide(node, values_, compute, results);
    device_ = device;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoSlot) continue;
    if (i < given.size()) {
      values_[node.outputs[i]] = std::move(given[i]);
      continue;
    }
    if (i >= results.size() || !results[i].defined())
      refuse_attribute(node, "it has more outputs than it makes");
    values_[node.outputs[i]] = {results[i], known || knows_sizes, follows || knows_sizes};
  }
  for (const size_t slot : node.last_uses) values_[slot] = {};
}

}  // namespace muster::inline v0_1::onnx::internal

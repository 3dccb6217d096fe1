// Nodes with graphs: branches and loops.
#include <limits>

#include "muster/imports/internal/graph_run.h"
#include "muster/imports/internal/kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

const ImportedGraph& graph_of(const NodeRun& call, const char* name) {
  const auto& graph = call.attribute(name).graph;
  call.require(graph != nullptr, "its attribute is no graph");
  return *graph;
}

RunValue known_value(const Tensor& tensor) { return {.tensor = tensor, .known = true}; }

Results branch(NodeRun& call) {
  const ImportedGraph& graph = graph_of(call, call.number(0) != 0 ? "then_branch" : "else_branch");
  call.require(graph.inputs.empty(), "its branch has inputs");
  Results results;
  for (const RunValue& each : call.graph().run(graph, {}))
    results.push_back(call.graph().tensor_of(each));
  return results;
}

// What the steps of a loop give to one list.
Tensor joined(NodeRun& call, const std::vector<Tensor>& all, int64_t axis) {
  if (!all.empty()) return at::stack(all, axis);
  call.refuse("has no steps, so that the shape of its results is unknown");
}

Results loop(NodeRun& call) {
  const ImportedGraph& body = graph_of(call, "body");
  const int64_t most = call.has(0) ? call.integer(0) : std::numeric_limits<int64_t>::max();
  bool more = !call.has(1) || call.number(1) != 0;
  const size_t carried = call.inputs() < 2 ? 0 : call.inputs() - 2;
  call.require(body.inputs.size() == carried + 2 && body.outputs.size() > carried,
               "its body does not have its inputs and outputs");
  std::vector<RunValue> values;
  for (size_t i = 0; i < carried; ++i) values.push_back(call.value(2 + i));
  std::vector<std::vector<Tensor>> scanned(body.outputs.size() - 1 - carried);
  for (int64_t step = 0; step < most && more; ++step) {
    std::vector<RunValue> inputs{known_value(torch::full({}, step, at::kLong)),
                                 known_value(torch::full({}, true, at::kBool))};
    inputs.insert(inputs.end(), values.begin(), values.end());
    const std::vector<RunValue> outputs = call.graph().run(body, inputs);
    more = outputs[0].tensor.item<bool>();
    for (size_t i = 0; i < carried; ++i) values[i] = outputs[1 + i];
    for (size_t i = 0; i < scanned.size(); ++i)
      scanned[i].push_back(call.graph().tensor_of(outputs[1 + carried + i]));
  }
  Results results;
  for (const RunValue& each : values) results.push_back(call.graph().tensor_of(each));
  for (size_t i = 0; i < scanned.size(); ++i)
    results.push_back(call.wants(carried + i) ? joined(call, scanned[i], 0) : Tensor());
  return results;
}

Results scan(NodeRun& call) {
  const ImportedGraph& body = graph_of(call, "body");
  const auto sequences = static_cast<size_t>(call.integer_attribute("num_scan_inputs", 0));
  call.require(sequences > 0 && sequences <= call.inputs() && body.inputs.size() == call.inputs(),
               "its body does not have its inputs");
  const size_t carried = call.inputs() - sequences;
  call.require(body.outputs.size() >= carried, "its body does not have its outputs");
  const size_t lists = body.outputs.size() - carried;
  const auto of_inputs = [&](const char* name) {
    return call.integers_attribute(name, std::vector<int64_t>(sequences, 0));
  };
  const auto of_outputs = [&](const char* name) {
    return call.integers_attribute(name, std::vector<int64_t>(lists, 0));
  };
  const std::vector<int64_t> axes = of_inputs("scan_input_axes"),
                             back = of_inputs("scan_input_directions"),
                             out_axes = of_outputs("scan_output_axes"),
                             out_back = of_outputs("scan_output_directions");
  call.require(axes.size() == sequences && back.size() == sequences && out_axes.size() == lists &&
                   out_back.size() == lists,
               "its lists have different lengths");
  std::vector<RunValue> values;
  for (size_t i = 0; i < carried; ++i) values.push_back(call.value(i));
  std::vector<Tensor> given;
  for (size_t i = 0; i < sequences; ++i) {
    const Tensor all = call.in(carried + i);
    given.push_back(all.movedim(call.normalized(axes[i], all.dim()), 0));
  }
  std::vector<std::vector<Tensor>> scanned(lists);
  const int64_t steps = given.front().size(0);
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<RunValue> inputs = values;
    for (size_t i = 0; i < sequences; ++i)
      inputs.push_back({given[i][back[i] != 0 ? steps - 1 - step : step]});
    const std::vector<RunValue> outputs = call.graph().run(body, inputs);
    for (size_t i = 0; i < carried; ++i) values[i] = outputs[i];
    for (size_t i = 0; i < lists; ++i)
      scanned[i].push_back(call.graph().tensor_of(outputs[carried + i]));
  }
  Results results;
  for (const RunValue& each : values) results.push_back(call.graph().tensor_of(each));
  for (size_t i = 0; i < lists; ++i) {
    Tensor all = joined(call, scanned[i], 0);
    if (out_back[i] != 0) all = all.flip({0});
    results.push_back(all.movedim(0, call.normalized(out_axes[i], all.dim())));
  }
  return results;
}

}  // namespace

void add_graph_kernels(KernelMap& map) {
  map["If"] = {.run = branch, .least_inputs = 1, .has_graphs = true};
  map["Loop"] = {.run = loop, .least_inputs = 0, .has_graphs = true};
  map["Scan"] = {.run = scan, .least_inputs = 1, .has_graphs = true};
}

}  // namespace muster::inline v0_1::onnx::internal

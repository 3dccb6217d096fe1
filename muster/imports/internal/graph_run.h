// Runs the graph of a model once. For sources alone. Thread safety: one thread.
#pragma once

#include <ATen/TracerMode.h>

#include <vector>

#include "muster/imports/internal/imported_graph.h"
#include "muster/imports/internal/node_run.h"

namespace muster::inline v0_1::onnx::internal {

// While it exists, neither autograd nor a trace notes what this thread computes.
class Apart {
 private:
  at::NoGradGuard no_grad_;
  at::tracer::impl::NoTracerDispatchMode untraced_;
};

class GraphRun {
 public:
  // `weights` has the value of each ImportedModel::weights that is a variable.
  GraphRun(const ImportedModel& model, const std::vector<Tensor>& weights);

  // Throws InvalidArgument with the node and its inputs, if LibTorch does not take them.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  // For nodes with graphs: runs one, whose inputs have these values; returns its outputs.
  std::vector<RunValue> run(const ImportedGraph& graph, const std::vector<RunValue>& inputs);
  const RunValue& value(size_t slot) const { return values_[slot]; }
  const ImportedModel& model() const { return model_; }
  // As a tensor to compute with: on the device of the weights. A known number that follows a size
  // becomes one that a trace follows.
  Tensor tensor_of(const RunValue& value) const;
  // Where new tensors are made.
  Device device() const { return device_; }

 private:
  void run(const ImportedGraph& graph);
  void run(const ImportedNode& node);

  const ImportedModel& model_;
  std::vector<RunValue> values_;
  Device device_ = at::kCPU;
  bool tracing_ = false;
};

}  // namespace muster::inline v0_1::onnx::internal

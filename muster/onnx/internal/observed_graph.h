// The graph of an exported model, run node by node at two sizes of its free axes. The two runs show
// the dtype and the shape of each value, which values are constants, and which integers follow a
// free axis. For sources alone. Thread safety: immutable after construction.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::onnx::internal {

// One value of the graph.
struct ObservedValue {
  // The value in both runs. A tensor that is not constant keeps its dtype and shape alone: it is on
  // the device "meta".
  std::array<c10::IValue, 2> runs{};
  // Whether the value is the same for all inputs. A size is, if both runs gave the same.
  bool constant = false;
  // The weight that the value was computed with last ("net/dense/kernel"), for names and errors;
  // empty before the first.
  std::string weight{};

  // The tensor of the first run.
  const Tensor& tensor() const { return runs[0].toTensor(); }
};

class ObservedGraph {
 public:
  // `inputs` has the arguments of forward() twice, with two sizes for each free axis. Of a loop,
  // the first step is run alone: the others have the same shapes. Throws InvalidArgument ("not
  // supported: ...") for branches, loops that may end early and changes in place, and LibTorch's
  // exceptions.
  ObservedGraph(const torch::jit::Module& module, const std::array<std::vector<Tensor>, 2>& inputs);

  const torch::jit::Graph& graph() const { return *graph_; }
  const ObservedValue& at(const torch::jit::Value* value) const { return values_.at(value); }

 private:
  void run(const torch::jit::Node& node);
  void run_loop(const torch::jit::Node& node);
  void append(const torch::jit::Node& node);
  std::vector<c10::IValue> run_once(const torch::jit::Node& node, size_t which) const;
  void release_after(const torch::jit::Node& node);

  std::shared_ptr<torch::jit::Graph> graph_;
  std::unordered_map<const torch::jit::Value*, ObservedValue> values_;
  std::unordered_map<const torch::jit::Node*, std::vector<const torch::jit::Value*>> last_uses_;
  std::array<int64_t, 2> steps_{1, 1};  // of the loop that is run, in both runs
};

}  // namespace muster::inline v0_1::onnx::internal

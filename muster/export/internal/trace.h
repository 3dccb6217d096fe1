// Makes TorchScript of a function of tensors. For sources alone.
// Thread safety: free functions; the calling thread traces.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <exception>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

using NamedTensors = std::map<std::string, Tensor>;

// The function to trace, and its inputs.
struct TraceSource {
  std::function<NamedTensors(const NamedTensors&)> function{};
  std::vector<std::pair<std::string, Tensor>> weights{};  // that the function uses, by name
  // The same inputs at two batch sizes (axis 0); the traces show which sizes follow it.
  NamedTensors inputs{}, other_inputs{};
};

// A module whose forward() takes the inputs in the order of their names and returns a dict of the
// function's results. Its parameters are the weights, in submodules: "net/dense/kernel" is
// net.dense.kernel. Throws InvalidArgument, naming the output, for one that does not depend on the
// inputs, and naming the operation for one that draws random numbers.
torch::jit::Module trace(const TraceSource& source);

// Calls forward(). Throws LibTorch's exceptions.
NamedTensors call(const torch::jit::Method& forward, const NamedTensors& inputs);
// The cause of a failed call, without the source of the module around the place.
std::string cause_of(const std::exception& error);

}  // namespace muster::inline v0_1::internal

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

// What is traced, and on what.
struct TraceSource {
  std::function<NamedTensors(const NamedTensors&)> function{};
  std::vector<std::pair<std::string, Tensor>> weights{};  // that the function uses, by name
  // The same inputs at two batch sizes (axis 0); the traces tell what follows it.
  NamedTensors inputs{}, other_inputs{};
};

// A module whose forward() takes the inputs in the order of their names and gives a dict of what
// the function gives. Its parameters are the weights, in submodules: "net/dense/kernel" is
// net.dense.kernel. Throws InvalidArgument, naming the output, for one that does not depend on the
// inputs, and naming the operation for one that draws random numbers.
torch::jit::Module trace(const TraceSource& source);

// Calls forward(). Throws what LibTorch throws.
NamedTensors call(const torch::jit::Method& forward, const NamedTensors& inputs);
// What went wrong in a call, without the source of the module around the place.
std::string cause_of(const std::exception& error);

}  // namespace muster::inline v0_1::internal

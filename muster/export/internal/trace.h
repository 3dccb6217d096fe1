// Makes TorchScript of a function of tensors. For sources alone.
// Thread safety: free functions; the calling thread traces.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/export/internal/size_constants.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

using NamedTensors = std::map<std::string, Tensor>;

// The function's inputs, and their sizes in the order of TraceSource::sources.
struct TraceSample {
  NamedTensors inputs{};
  std::vector<int64_t> sizes{};
};

// The function to trace, and its inputs.
struct TraceSource {
  std::function<NamedTensors(const NamedTensors&)> function{};
  std::vector<std::pair<std::string, Tensor>> weights{};  // that the function uses, by name
  std::vector<SizeSource> sources{};                      // the sizes that differ
  // The same inputs at several sizes, two samples or more; the traces show which numbers follow
  // which size.
  std::vector<TraceSample> samples{};
};

struct Traced {
  torch::jit::Module module;
  // Why the module computes the sizes of the first sample alone; unset: it follows them.
  std::optional<SizeDeviation> deviation{};
};

// Makes a module whose forward() takes the inputs in the order of their names and returns a dict of
// the function's results. Its parameters are the weights, in submodules: "net/dense/kernel" is
// net.dense.kernel. Throws InvalidArgument, naming the output, for one that does not depend on the
// inputs, and naming the operation for one that draws random numbers.
Traced trace(const TraceSource& source);

// Calls forward(). Throws LibTorch's exceptions.
NamedTensors call(const torch::jit::Method& forward, const NamedTensors& inputs);
// The cause of a failed call, without the source of the module around the place.
std::string cause_of(const std::exception& error);

}  // namespace muster::inline v0_1::internal

// The map of TensorFlow's operations to LibTorch's. For sources alone. Thread safety: built once;
// then immutable.
#pragma once

#include <string>
#include <vector>

#include "muster/imports/internal/graph_run.h"
#include "muster/imports/internal/kernels.h"

namespace muster::inline v0_1::imports {

using onnx::internal::Apart;
using onnx::internal::Kernel;
using onnx::internal::KernelMap;
using onnx::internal::NodeRun;
using onnx::internal::RunValue;
using Results = std::vector<Tensor>;

// By the names of operations. An operation that means what one of ONNX means has that kernel.
const KernelMap& tensorflow_kernel_map();

// The parts of the map.
void add_tensorflow_elementwise(KernelMap& map);
void add_tensorflow_shapes(KernelMap& map);
void add_tensorflow_indexing(KernelMap& map);
void add_tensorflow_reductions(KernelMap& map);
void add_tensorflow_networks(KernelMap& map);
void add_tensorflow_lists(KernelMap& map);
void add_tensorflow_sparse(KernelMap& map);

// The dtype of an attribute. Throws InvalidArgument ("not supported: ...") for one that LibTorch
// lacks.
DType dtype_attribute(const NodeRun& call, const char* name, DType otherwise);
// An axis that is a number of an input, from 0 on.
int64_t axis_in(const NodeRun& call, size_t input, int64_t rank);
// int32 or int64 [count].
Tensor integers_of(const std::vector<int64_t>& numbers, DType dtype);

}  // namespace muster::inline v0_1::imports

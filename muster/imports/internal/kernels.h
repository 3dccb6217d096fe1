// The map of ONNX operations to LibTorch's. For sources alone. Thread safety: built once; then
// immutable.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/imports/internal/node_run.h"

namespace muster::inline v0_1::onnx::internal {

// Computes a node. An undefined tensor is a result that was not asked for.
using RunKernel = std::vector<Tensor> (*)(NodeRun& call);
// Reads attributes once, when the model is loaded. Throws Corrupt if they contradict each other.
using PrepareKernel = std::shared_ptr<const void> (*)(const ImportedNode& node);

struct Kernel {
  RunKernel run = nullptr;
  size_t least_inputs = 1;
  // The shape of the result follows the values of inputs: see NodeRun.
  bool sized = false;
  bool has_graphs = false;  // which may use any values
  PrepareKernel prepare = nullptr;
};
using KernelMap = std::map<std::string, Kernel>;

// By the names of operations; of other domains than ONNX's own "ai.onnx.ml.Scaler".
const KernelMap& kernel_map();

// The parts of the map.
void add_elementwise_kernels(KernelMap& map);
void add_shape_kernels(KernelMap& map);
void add_index_kernels(KernelMap& map);
void add_reduction_kernels(KernelMap& map);
void add_network_kernels(KernelMap& map);
void add_pooling_kernels(KernelMap& map);
void add_resize_kernels(KernelMap& map);
void add_recurrent_kernels(KernelMap& map);
void add_quantized_kernels(KernelMap& map);
void add_tree_kernels(KernelMap& map);

// "Loop", "If" and "Scan" run graphs; "Shape" and "Size" ask for sizes.
void add_graph_kernels(KernelMap& map);

}  // namespace muster::inline v0_1::onnx::internal

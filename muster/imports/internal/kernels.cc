#include "muster/imports/internal/kernels.h"

namespace muster::inline v0_1::onnx::internal {

const KernelMap& kernel_map() {
  static const KernelMap map = [] {
    KernelMap all;
    add_elementwise_kernels(all);
    add_shape_kernels(all);
    add_index_kernels(all);
    add_reduction_kernels(all);
    add_network_kernels(all);
    add_pooling_kernels(all);
    add_resize_kernels(all);
    add_recurrent_kernels(all);
    add_quantized_kernels(all);
    add_tree_kernels(all);
    add_graph_kernels(all);
    return all;
  }();
  return map;
}

}  // namespace muster::inline v0_1::onnx::internal

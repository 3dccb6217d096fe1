#include "muster/onnx/internal/operations.h"

namespace muster::inline v0_1::onnx::internal {

const OperationMap& operation_map() {
  static const OperationMap map = [] {
    OperationMap all;
    add_elementwise(all);
    add_comparisons(all);
    add_shapes(all);
    add_indexing(all);
    add_reductions(all);
    add_networks(all);
    add_recurrent(all);
    add_sizes(all);
    return all;
  }();
  return map;
}

}  // namespace muster::inline v0_1::onnx::internal

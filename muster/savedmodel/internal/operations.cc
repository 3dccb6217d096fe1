#include "muster/savedmodel/internal/operations.h"

namespace muster::inline v0_1::saved_model::internal {

const OperationMap& operation_map() {
  static const OperationMap map = [] {
    OperationMap all;
    add_elementwise(all);
    add_shapes(all);
    add_indexing(all);
    add_reductions(all);
    add_networks(all);
    add_pools(all);
    return all;
  }();
  return map;
}

}  // namespace muster::inline v0_1::saved_model::internal

// The map of ONNX's operations to TensorFlow's. For sources alone. Thread safety: built once; then
// immutable.
#pragma once

#include <map>
#include <string>

#include "muster/savedmodel/internal/call.h"

namespace muster::inline v0_1::saved_model::internal {

// Writes one operation, and says what its results are.
using WriteOperation = void (*)(Call& call);
using OperationMap = std::map<std::string, WriteOperation>;

// By their names in ONNX. Loop is not among them.
const OperationMap& operation_map();

// The parts of the map.
void add_elementwise(OperationMap& map);
void add_shapes(OperationMap& map);
void add_indexing(OperationMap& map);
void add_reductions(OperationMap& map);
void add_networks(OperationMap& map);
void add_pools(OperationMap& map);

}  // namespace muster::inline v0_1::saved_model::internal

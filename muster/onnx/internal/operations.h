// The map of ATen operations to ONNX's. For sources alone. Thread safety: built once; then
// immutable.
#pragma once

#include <map>
#include <string>

#include "muster/onnx/internal/call.h"

namespace muster::inline v0_1::onnx::internal {

// Writes one operation, and says what its results are.
using WriteOperation = void (*)(Call& call);
using OperationMap = std::map<std::string, WriteOperation>;

// By their names in ATen, without the overload: "aten::add".
const OperationMap& operation_map();

// Follows the name of an operation whose result is an integer, if there is one on tensors too.
inline constexpr const char* kOfIntegers = ".int";

// The parts of the map.
void add_elementwise(OperationMap& map);
void add_comparisons(OperationMap& map);
void add_shapes(OperationMap& map);
void add_indexing(OperationMap& map);
void add_reductions(OperationMap& map);
void add_networks(OperationMap& map);
void add_recurrent(OperationMap& map);
void add_sizes(OperationMap& map);

}  // namespace muster::inline v0_1::onnx::internal

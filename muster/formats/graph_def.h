// The graph of a model for TensorBoard's graph page.
// Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/export.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// A node of the graph.
struct NodeDef {
  std::string name{};  // "net/dense": each '/' ends a scope, which the page can collapse
  std::string op{};    // "Dense"
  std::vector<std::string>
      inputs{};  // names of the nodes whose outputs it takes; "add:1" is the second output
  std::vector<std::vector<int64_t>> output_shapes{};  // of each output; -1: any size
  int64_t parameters = 0;                             // number of learned values
};

// All nodes, in any order.
struct GraphDef {
  std::vector<NodeDef> nodes{};
};

// Returns the bytes of TensorFlow's GraphDef, shapes in the attribute "_output_shapes".
MUSTER_EXPORT std::string encode_graph(const GraphDef& graph);
// Returns Corrupt when the bytes are not such a message. Other attributes are dropped.
MUSTER_EXPORT Result<GraphDef> decode_graph(Bytes bytes);

}  // namespace muster::inline v0_1::formats

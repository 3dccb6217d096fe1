// The layers of a model as TensorBoard's graph page shows them.
// Thread safety: a pure function.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/formats/graph_def.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Returns a node for each layer, in scope `scope` ("net/dense"), with the shape of its output (-1:
// any size) and its number of weights; and one for each input. A Functional is shown with its own
// inputs; any other layer is called on `inputs`, results of Input(): the layers of a Sequential
// have a node each, another layer is one node. Throws the errors of Layer::summary().
MUSTER_PART_EXPORT formats::GraphDef model_graph(const Layer& model,
                                                 const std::vector<SymbolicTensor>& inputs,
                                                 const std::string& scope);

}  // namespace muster::inline v0_1

// The graph of the models of ModelContext::model(). Thread safety: as the context.
#pragma once

#include "muster/formats/graph_def.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1::internal {

// The layers of all models that were called, in the order of their names, each in a scope of its
// name. A model whose layers cannot be listed without data is left out, and the log says why.
formats::GraphDef graph_of_models(const ModelContext& context);

}  // namespace muster::inline v0_1::internal

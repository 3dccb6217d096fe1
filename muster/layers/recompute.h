// Recomputation trades time for memory: intermediate results of a block are not kept, but computed
// again when the backward pass needs them. (Others call it activation checkpointing, or
// rematerialization.)
// Thread safety: immutable values.
#pragma once

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Calls `layer`, and keeps only its inputs and outputs. The backward pass calls it again, with the
// same random keys and the same initial state, and so gets the same bits; writes of the second call
// to variables of VariableSynchronization::kOnRead, such as moving statistics, are dropped. While a
// block runs, all of its intermediate results are in memory: give each of several blocks of a deep
// model its own Recompute.
//
// Gradients have the same bits as without it, except if a tensor or a weight is used at least twice
// inside and again outside of the block: the same numbers are then added in another order. Second
// derivatives work; they call the layer once or twice more. Variables have the names they would
// have without Recompute. The context must live until the backward pass, which throws
// InvalidArgument for third derivatives, and if the layer is not a pure function, as
// LayerImpl::call() must be. Without gradients it only calls the layer.
MUSTER_EXPORT Layer Recompute(Layer layer);

}  // namespace muster::inline v0_1

// Recomputation trades time for memory: what a block computes on its way is forgotten, and computed
// again when backward needs it. (Others call it activation checkpointing, or rematerialization.)
// Thread safety: immutable values.
#pragma once

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Calls `layer`, and keeps only what goes into it and comes out of it. Backward calls it once more,
// with the same random keys and with state as it was before, and so gets the same bits; what the
// second call writes into variables of VariableSynchronization::kOnRead, as moving statistics, is
// dropped. While a block runs, all that it computes is in memory: give several blocks of a deep
// model a Recompute each.
//
// Gradients have the bits they have without it, but where a tensor or a weight is used at least
// twice inside and again outside of the block: then the same numbers are added in another order.
// Gradients have gradients, for which the layer is called once or twice more. Variables are named
// as if `layer` stood alone. The context must live until backward. Backward throws InvalidArgument
// where third derivatives are asked for, and where the layer is not a pure function, as
// LayerImpl::call() must be. Without gradients it is the layer itself.
MUSTER_EXPORT Layer Recompute(Layer layer);

}  // namespace muster::inline v0_1

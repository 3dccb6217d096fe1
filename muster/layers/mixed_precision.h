// Mixed precision: a model multiplies bfloat16 numbers, which processors and GPUs with instructions
// for them do several times as fast, and keeps its weights in float32.
// Thread safety: immutable values.
#pragma once

#include <string_view>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Returns `layer`, usually a whole model, with the policy of that name; it also applies to the
// layers inside. Policies:
// - "bfloat16", also called "mixed_bfloat16" as in Keras: matrix products and convolutions round
//   their inputs to bfloat16, add in float32 and return bfloat16. So do the products in recurrent
//   layers and in attention. Normalization, softmax, dropout, the state of recurrent layers and
//   your own layers get float32. The result of `layer` is float32 again.
// - "float32": everything in float32, also inside a model with "bfloat16".
// Variables, their gradients, updates and checkpoints are float32 with both policies, so either can
// continue what the other trained. Names do not change. bfloat16 has the range of float32, so the
// loss needs no scaling. docs/layers.md lists the dtype of each layer.
//
// Inputs are float32, bfloat16 or integers. Throws InvalidArgument for an unknown policy; the hint
// has the nearest one. A call with "bfloat16" throws it for an input of float64, and if the machine
// has no instructions for such products: on a processor without AVX512-BF16 and AMX-BF16; the
// message says so. A GPU is assumed to have them.
// Source: tf.keras.mixed_precision.Policy("mixed_bfloat16").
MUSTER_EXPORT Layer mixed_precision(std::string_view policy, Layer layer);

}  // namespace muster::inline v0_1

// Mixed precision: a model multiplies numbers of bfloat16, which processors and GPUs with
// instructions for them do several times as fast, and keeps its weights in float32.
// Thread safety: immutable values.
#pragma once

#include <string_view>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Gives `layer`, most often a whole model, computing by the policy of that name; the layers in it
// too. Policies:
// - "bfloat16", also called "mixed_bfloat16" as in Keras: matrix products and convolutions take
//   numbers rounded to bfloat16, add up in float32 and give bfloat16. So do the products in
//   recurrent layers and in attention. Normalization, softmax, dropout, the state of recurrent
//   layers and layers of your own are given float32. What the whole gives is float32 again.
// - "float32": all of it in float32, also inside of a model that is called by "bfloat16".
// Variables, their gradients and updates are float32 under both, and so are checkpoints: what one
// has trained the other continues. Names do not change. bfloat16 has the range of float32, so the
// loss needs no scale. docs/layers.md lists what each layer computes in.
//
// Inputs are float32, bfloat16 or integers. Throws InvalidArgument for an unknown policy; the hint
// has the nearest one. A call by "bfloat16" throws it for an input of float64, and where the
// machine has no instructions for such products: on a processor without AVX512-BF16 and AMX-BF16,
// which the message says. A GPU is taken to have them.
// Source: tf.keras.mixed_precision.Policy("mixed_bfloat16").
MUSTER_EXPORT Layer mixed_precision(std::string_view policy, Layer layer);

}  // namespace muster::inline v0_1

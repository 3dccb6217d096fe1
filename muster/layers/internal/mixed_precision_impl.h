// mixed_precision() has a name here, so that a summary sees the layers in it.
// Thread safety: immutable.
#pragma once

#include <utility>

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

class MixedPrecisionImpl final : public LayerImpl {
 public:
  // `mixed`: by the policy "bfloat16", not "float32".
  MixedPrecisionImpl(bool mixed, Layer layer)
      : LayerImpl("mixed_precision", ""), mixed_(mixed), layer_(std::move(layer)) {}
  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override;
  LayerPrecision precision() const override {
    return mixed_ ? LayerPrecision::kAsGiven : LayerPrecision::kFloat32;
  }

  const Layer& layer() const { return layer_; }

 private:
  bool mixed_;
  Layer layer_;
};

}  // namespace muster::inline v0_1::internal

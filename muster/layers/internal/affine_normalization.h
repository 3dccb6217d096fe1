// A normalization with fixed statistics multiplies each channel by a factor and adds an offset,
// which a convolution before it can include. Thread safety: immutable.
#pragma once

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// A layer that is one, whenever CallContext::trains() is false of it.
class AffineNormalization {
 public:
  struct Variables {
    Tensor gamma{};  // undefined without scale
    Tensor beta{};   // undefined without center
    Tensor mean{};
    Tensor variance{};
  };
  // Checks the input: numbers of its dtype, whose last axis has its channels. Creates missing
  // variables.
  virtual Variables variables(const Tensor& input, CallContext& context) const = 0;
  // Is added to the variance.
  virtual double epsilon() const = 0;

 protected:
  ~AffineNormalization() = default;
};

}  // namespace muster::inline v0_1::internal

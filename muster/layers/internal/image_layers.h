// The image layers have names here, so that Sequential may run two of them as one.
#pragma once

#include "muster/layers/convolution.h"
#include "muster/layers/unary_layer.h"

namespace muster::inline v0_1::internal {

class Conv2DImpl final : public UnaryLayerImpl {
 public:
  Conv2DImpl(int64_t filters, Size2D kernel_size, Conv2DOptions options);
  Tensor call(const Tensor& input, CallContext& context) const override;

  const Conv2DOptions& options() const { return options_; }

  struct Variables {
    Tensor kernel;
    Tensor bias;  // undefined without use_bias
  };
  // Checks the input, and creates what is missing.
  Variables variables(const Tensor& input, CallContext& context) const;
  // Computes the convolution with its bias, before the activation.
  Tensor call_without_activation(const Tensor& input, CallContext& context) const;

 private:
  int64_t filters_;
  Size2D kernel_size_;
  Conv2DOptions options_;
};

class MaxPooling2DImpl final : public UnaryLayerImpl {
 public:
  explicit MaxPooling2DImpl(MaxPooling2DOptions options);
  Tensor call(const Tensor& input, CallContext& context) const override;

  const MaxPooling2DOptions& options() const { return options_; }
  Size2D strides() const { return strides_; }

 private:
  MaxPooling2DOptions options_;
  Size2D strides_;
};

// Computes pool(relu(conv(input))) as relu(pool(conv(input))). The largest value of a window is the
// same before and after, and where it is not positive neither order lets a gradient through.
Tensor conv_relu_pool(const Conv2DImpl& conv, const MaxPooling2DImpl& pool, const Tensor& input,
                      CallContext& context);

}  // namespace muster::inline v0_1::internal

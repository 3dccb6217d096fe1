// The image layers, seen by Sequential, which may run two of them as one.
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
  // The convolution with its bias, before the activation.
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

// pool(relu(conv(input))), computed as relu(pool(conv(input))): the largest value of a window is
// the same before and after, and where it is not positive neither order lets a gradient through.
Tensor conv_relu_pool(const Conv2DImpl& conv, const MaxPooling2DImpl& pool, const Tensor& input,
                      CallContext& context);

}  // namespace muster::inline v0_1::internal

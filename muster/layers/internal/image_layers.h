// Convolution, pooling and padding have names here, so that Sequential may run two of them as one.
#pragma once

#include "muster/layers/activations.h"
#include "muster/layers/initializers.h"
#include "muster/layers/internal/windows.h"
#include "muster/layers/unary_layer.h"

namespace muster::inline v0_1::internal {

// The description of a convolution of any rank.
struct ConvolutionSpec {
  const char* class_name = "";  // "conv2d"
  int64_t filters = 0;
  Window window{};
  int64_t groups = 1;
  Activation activation{};
  bool use_bias = true;
  Initializer kernel_initializer{};
  Initializer bias_initializer{};
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
};

class ConvolutionImpl final : public UnaryLayerImpl {
 public:
  ConvolutionImpl(ConvolutionSpec spec, std::string name)
      : UnaryLayerImpl(spec.class_name, std::move(name)), spec_(std::move(spec)) {}
  Tensor call(const Tensor& input, CallContext& context) const override;
  LayerPrecision precision() const override { return LayerPrecision::kBfloat16; }

  const ConvolutionSpec& spec() const { return spec_; }

  struct Variables {
    Tensor kernel{};
    Tensor bias{};  // undefined without use_bias
  };
  // Checks the input, and creates missing variables.
  Variables variables(const Tensor& input, CallContext& context) const;
  // Computes the result of call() for an input with the given number of zeros on both sides of each
  // axis. The padding is valid.
  Tensor call_with_margins(const Tensor& input, const Sizes& margins, CallContext& context) const;
  // Computes the convolution with its bias, before the activation.
  Tensor call_without_activation(const Tensor& input, CallContext& context) const;

 private:
  Tensor finished(const Tensor& sums, CallContext& context) const;

  ConvolutionSpec spec_;
};

// Adds zeros.
class ZeroPaddingImpl final : public UnaryLayerImpl {
 public:
  ZeroPaddingImpl(const char* class_name, std::vector<Pads> margins, std::string name)
      : UnaryLayerImpl(class_name, std::move(name)), margins_(std::move(margins)) {}
  Tensor call(const Tensor& input, CallContext& context) const override;
  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

  const std::vector<Pads>& margins() const { return margins_; }  // of each axis

 private:
  std::vector<Pads> margins_;
};

// Returns the largest value of each window.
class MaxPoolingImpl final : public UnaryLayerImpl {
 public:
  MaxPoolingImpl(const char* class_name, Window window, std::string name)
      : UnaryLayerImpl(class_name, std::move(name)), window_(std::move(window)) {}
  Tensor call(const Tensor& input, CallContext& context) const override;
  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

  const Window& window() const { return window_; }

  // Computes the result of call() for the output of `zeros`, given the input of `zeros`.
  Tensor call_with_zeros(const Tensor& input, const ZeroPaddingImpl& zeros,
                         CallContext& context) const;

 private:
  Window window_;
};

// The margins of a padding that is alike on both sides of each axis.
Sizes margins_of(const ZeroPaddingImpl& pad);
// Checks the input of a padding. Returns whether conv.call_with_margins() takes it: the convolution
// checks that its input is as large as its window.
bool fits_with_margins(const ZeroPaddingImpl& pad, const ConvolutionImpl& conv, const Tensor& input,
                       CallContext& context);
// Computes conv(pad(input)) without the padded copy, where the margins are alike on both sides.
Tensor pad_conv(const ZeroPaddingImpl& pad, const ConvolutionImpl& conv, const Tensor& input,
                CallContext& context);

// Computes pool(relu(conv(input))) as relu(pool(conv(input))). The largest value of a window is the
// same before and after, and if it is not positive neither order lets a gradient through.
Tensor conv_relu_pool(const ConvolutionImpl& conv, const MaxPoolingImpl& pool, const Tensor& input,
                      CallContext& context);

}  // namespace muster::inline v0_1::internal

// Activation functions as separate layers.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Applies `activation` to every element, as Keras's Activation. A mask is passed on unchanged; a
// softmax along another axis than the last refuses a mask.
MUSTER_EXPORT Layer ActivationLayer(const Activation& activation, std::string name = {});

// Options of ReLU(), as those of activations::relu.
struct ReLUOptions {
  std::optional<double> max_value{};
  double negative_slope = 0;
  double threshold = 0;
  std::string name{};
};
// Computes activations::relu. A mask stays as it is. Throws InvalidArgument for a value that is
// below 0 or not finite.
MUSTER_EXPORT Layer ReLU(ReLUOptions options = {});

// Computes x for x > 0, else alpha * x. A mask stays as it is. Throws InvalidArgument for an alpha
// that is below 0 or not finite.
MUSTER_EXPORT Layer LeakyReLU(double alpha = 0.3, std::string name = {});

// Computes x for x > 0, else alpha * (exp(x) - 1). A mask stays as it is. Throws InvalidArgument
// for an alpha that is not finite.
MUSTER_EXPORT Layer ELU(double alpha = 1, std::string name = {});

// Computes x for x > theta, else 0. A mask stays as it is. Throws InvalidArgument for a theta that
// is below 0 or not finite.
MUSTER_EXPORT Layer ThresholdedReLU(double theta = 1, std::string name = {});

// Options of PReLU().
struct PReLUOptions {
  Initializer alpha_initializer = initializers::zeros();
  Regularizer alpha_regularizer{};
  Constraint alpha_constraint{};
  // Axes along which all elements have one alpha, counted with the batch: {1, 2} for images gives
  // each channel one.
  std::vector<int64_t> shared_axes{};
  std::string name{};
};
// Computes max(x, 0) - alpha * max(-x, 0) with an alpha that is learned (He et al., 2015). A mask
// stays as it is. Variable: "alpha", of the shape of one example with 1 for shared axes, of the
// input's dtype, one of weights. Throws InvalidArgument for a shared axis below 1, and when called,
// for one the input does not have.
MUSTER_EXPORT Layer PReLU(PReLUOptions options = {});

// Computes softmax along `axis`. A mask that covers the axis keeps steps out: -1e9 is added where
// it is false. A mask stays as it is.
MUSTER_EXPORT Layer Softmax(int64_t axis = -1, std::string name = {});

}  // namespace muster::inline v0_1

// Normalizes each example separately, so it does not depend on the batches of replicas.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Options of LayerNormalization().
struct LayerNormalizationOptions {
  std::vector<int64_t> axis = {-1};  // the axes to normalize together; negative numbers count from
                                     // the back
  double epsilon = 1e-3;             // added to the variance; more than 0
  bool center = true;                // add "beta"
  bool scale = true;                 // multiply by "gamma"
  Initializer beta_initializer = initializers::zeros();
  Initializer gamma_initializer = initializers::ones();
  Regularizer beta_regularizer{};
  Regularizer gamma_regularizer{};
  Constraint beta_constraint{};
  Constraint gamma_constraint{};
  std::string name{};
};

// Computes (x - mean) / sqrt(variance + epsilon) * gamma + beta, where mean and variance (divided
// by the count) are taken along the axes (Ba et al., 2016). A mask is passed on unchanged.
// Variables, with the sizes of the axes and the input's dtype: "gamma", "beta". Throws
// InvalidArgument for options out of range, and, when called, for an axis that is missing, named
// twice, or 0.
MUSTER_EXPORT Layer LayerNormalization(LayerNormalizationOptions options = {});

// Options of GroupNormalization().
struct GroupNormalizationOptions {
  int64_t groups = 32;    // -1: one for each channel (instance normalization)
  int64_t axis = -1;      // the axis of the channels
  double epsilon = 1e-3;  // added to the variance; more than 0
  bool center = true;     // add "beta"
  bool scale = true;      // multiply by "gamma"
  Initializer beta_initializer = initializers::zeros();
  Initializer gamma_initializer = initializers::ones();
  Regularizer beta_regularizer{};
  Regularizer gamma_regularizer{};
  Constraint beta_constraint{};
  Constraint gamma_constraint{};
  std::string name{};
};

// Divides the channels into groups of neighbours, and normalizes each group over its channels and
// all axes between (Wu and He, 2018). Variables, [channels], of the input's dtype: "gamma", "beta".
// Throws InvalidArgument for options out of range, and, when called, if the groups do not divide
// the channels.
MUSTER_EXPORT Layer GroupNormalization(GroupNormalizationOptions options = {});

// Divides by the root of the sum of squares along the axes, at least 1e-6. A mask is passed on
// unchanged. Throws InvalidArgument, when called, for axes that the input does not have.
MUSTER_EXPORT Layer UnitNormalization(std::vector<int64_t> axis = {-1}, std::string name = {});

}  // namespace muster::inline v0_1

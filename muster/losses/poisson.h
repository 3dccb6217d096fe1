// Losses of counts, with the definitions of Keras and tf.nn: labels come first, predictions second.
// Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Options of poisson().
struct PoissonOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of p - y log(p + 1e-7): for counts y, the part of their
// negative log-likelihood that depends on the predicted rates p. Shapes and errors are those of
// regression.h.
MUSTER_EXPORT Tensor poisson(const Tensor& labels, const Tensor& predictions,
                             const PoissonOptions& options = {});

// Options of log_poisson_loss().
struct LogPoissonLossOptions {
  // Adds y log y - y + log(2 pi y) / 2, Stirling's approximation of log(y!), for y > 1.
  bool compute_full_loss = false;
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the mean over the last axis of exp(x) - y x: poisson() with logarithms x of rates, which
// may be any output of a layer; tf.nn has the same function. Shapes and errors are those of
// regression.h.
MUSTER_EXPORT Tensor log_poisson_loss(const Tensor& labels, const Tensor& predictions,
                                      const LogPoissonLossOptions& options = {});

}  // namespace muster::inline v0_1::losses

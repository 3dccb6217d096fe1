// The divergence between two distributions, with Keras's definition: labels come first, predictions
// second. Thread safety: a pure function.
#pragma once

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Options of kl_divergence().
struct KlDivergenceOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes the sum over the last axis of y log(y / p), the divergence of Kullback and Leibler; both
// are clipped to [1e-7, 1]. predictions: probabilities [batch..., classes]; labels: the same shape.
// Throws InvalidArgument for shapes that do not fit (the error shows both).
MUSTER_EXPORT Tensor kl_divergence(const Tensor& labels, const Tensor& predictions,
                                   const KlDivergenceOptions& options = {});

}  // namespace muster::inline v0_1::losses

// Scales features to mean 0 and variance 1.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/layers/layer.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Options of Normalization.
struct NormalizationOptions {
  // The axes whose indices each have their own mean and variance; the others are averaged over.
  // Negative ones count from the end. Not 0, the axis of the batch; empty (Keras's None): one mean
  // for all.
  std::vector<int64_t> axis = {-1};
  // Set both, or let adapt() compute them. One for each index of `axis`, in memory order, or one
  // for all; variances are at least 0.
  std::vector<double> mean{};
  std::vector<double> variance{};
  bool invert = false;  // the inverse: from mean 0 and variance 1 to the original scale
  std::string name{};   // of the layer
};

// Computes (input - mean) / max(sqrt(variance), 1e-7), or its inverse with `invert`; the shape is
// unchanged. Integers become float32. It is a function for map(), and converts to a Layer; mean and
// variance are part of the program, not of a checkpoint.
class MUSTER_EXPORT Normalization {
 public:
  // Throws InvalidArgument for options out of range.
  explicit Normalization(NormalizationOptions options = {});

  // Returns a Normalization with the mean and variance (divided by the count) of this data, whose
  // elements are batches [batch, ...] of the single value; scalars [batch] have one mean. It is
  // computed in float64, row after row (Welford, 1962): the same rows in other batches give the
  // same bits. Throws InvalidArgument when mean and variance were given, for data without rows,
  // without end or of several values, for unequal shapes, and for numbers that are not finite.
  [[nodiscard]] Normalization adapt(const Dataset& batches) const;
  // The same for one batch.
  [[nodiscard]] Normalization adapt(const Tensor& batch) const;

  // Throws InvalidArgument before there are mean and variance, and for an input whose axes do not
  // fit them.
  Tensor operator()(const Tensor& input) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

  // In memory order; empty before there are any.
  const std::vector<double>& mean() const;
  const std::vector<double>& variance() const;

 private:
  class Impl;
  explicit Normalization(std::shared_ptr<const Impl> impl);

  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1

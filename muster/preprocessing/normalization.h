// Brings features to mean 0 and variance 1.
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
  // The axes that keep a mean and a variance for each place; all others are averaged over. Negative
  // ones count from the end. Not 0, the axis of the batch; none (Keras's None): one mean for all.
  std::vector<int64_t> axis = {-1};
  // Both are given, or learned by adapt(). As many as the places of `axis`, in the order of memory,
  // or one for all; variances are at least 0.
  std::vector<double> mean{};
  std::vector<double> variance{};
  bool invert = false;  // from mean 0 and variance 1 back to what there was
  std::string name{};   // of the layer
};

// Computes (input - mean) / max(sqrt(variance), 1e-7), or with `invert` the way back; the shape
// stays. Integers become float32. It is a function for map(), and converts to a Layer; mean and
// variance are part of the program, and not of a checkpoint.
class MUSTER_EXPORT Normalization {
 public:
  // Throws InvalidArgument for options out of range.
  explicit Normalization(NormalizationOptions options = {});

  // Returns one with the mean and variance (divided by the count) of this data, whose elements are
  // batches [batch, ...] of the one value it is for; of scalars [batch] there is one mean. It is
  // computed in float64, row after row (Welford, 1962): the same rows in other batches give the
  // same bits. Throws InvalidArgument when mean and variance were given, for data without rows,
  // without end or of several values, for unequal shapes, and for numbers that are not finite.
  [[nodiscard]] Normalization adapt(const Dataset& batches) const;
  // The same, of one batch.
  [[nodiscard]] Normalization adapt(const Tensor& batch) const;

  // Throws InvalidArgument before there are mean and variance, and for an input whose axes do not
  // fit them.
  Tensor operator()(const Tensor& input) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

  // In the order of memory; empty before there are any.
  const std::vector<double>& mean() const;
  const std::vector<double>& variance() const;

 private:
  class Impl;
  explicit Normalization(std::shared_ptr<const Impl> impl);

  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1

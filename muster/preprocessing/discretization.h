// Assigns numbers to bins.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/layers/layer.h"
#include "muster/preprocessing/output_mode.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Options of Discretization. Set either `bin_boundaries` or `num_bins`.
struct DiscretizationOptions {
  std::vector<double> bin_boundaries{};  // ascending
  int64_t num_bins = 0;                  // for which adapt() finds boundaries
  // The largest error of adapt()'s quantiles, as a fraction of all numbers, for more than 1,048,576
  // numbers; fewer are sorted exactly. Between 0 and 1.
  double epsilon = 0.01;
  OutputMode output_mode = OutputMode::kInt;  // or kOneHot, kMultiHot, kCount
  std::string name{};                         // of the layer
};

// Returns the bin of each number, int64, encoded as OutputMode says: bin i has the numbers from
// bin_boundaries[i - 1] up to below bin_boundaries[i]; the first bin has all smaller numbers, the
// last one all larger numbers and NaN. float32 numbers are compared in float32, others in float64.
// It is a function for map(), and converts to a Layer; the boundaries are part of the program, not
// of a checkpoint.
class MUSTER_EXPORT Discretization {
 public:
  // Throws InvalidArgument for options out of range.
  explicit Discretization(DiscretizationOptions options);

  // Returns a Discretization whose boundaries are quantiles of this data, so that all bins are
  // equally full. Elements are batches of the single value; all axes are treated alike. The same
  // numbers in other batches give the same bits. With fewer numbers than bins, all except the
  // largest become boundaries. Throws InvalidArgument when boundaries were given, for data without
  // numbers, without end or of several values, and for numbers that are not finite.
  [[nodiscard]] Discretization adapt(const Dataset& batches) const;
  // The same for one batch.
  [[nodiscard]] Discretization adapt(const Tensor& batch) const;

  // Throws InvalidArgument before there are boundaries.
  Tensor operator()(const Tensor& input) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

  // Empty before there are any.
  const std::vector<double>& bin_boundaries() const;

 private:
  class Impl;
  // Private, and of two arguments, so that Discretization({}) means empty options.
  struct Made {};
  Discretization(Made made, std::shared_ptr<const Impl> impl);

  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1

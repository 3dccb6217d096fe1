// Puts numbers into bins.
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

// Options of Discretization. Either `bin_boundaries` or `num_bins` is given.
struct DiscretizationOptions {
  std::vector<double> bin_boundaries{};  // ascending
  int64_t num_bins = 0;                  // that adapt() should find boundaries for
  // How far adapt() may be off, as a part of all numbers, where there are more than 1,048,576 of
  // them; fewer it sorts. Between 0 and 1.
  double epsilon = 0.01;
  OutputMode output_mode = OutputMode::kInt;  // or kOneHot, kMultiHot, kCount
  std::string name{};                         // of the layer
};

// Gives the bin of each number, int64, encoded as OutputMode says: bin i has the numbers from
// bin_boundaries[i - 1] up to below bin_boundaries[i], the first one all below, the last one all
// others, and what is not a number. float32 numbers are compared with boundaries in float32, others
// in float64. It is a function for map(), and converts to a Layer; the boundaries are part of the
// program, and not of a checkpoint.
class MUSTER_EXPORT Discretization {
 public:
  // Throws InvalidArgument for options out of range.
  explicit Discretization(DiscretizationOptions options);

  // Returns one whose boundaries are quantiles of this data, so that its bins are equally full;
  // elements are batches of the one value it is for, and all its axes count alike. The same numbers
  // in other batches give the same bits. Of fewer numbers than bins all but the largest become
  // boundaries. Throws InvalidArgument when boundaries were given, for data without numbers,
  // without end or of several values, and for numbers that are not finite.
  [[nodiscard]] Discretization adapt(const Dataset& batches) const;
  // The same, of one batch.
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

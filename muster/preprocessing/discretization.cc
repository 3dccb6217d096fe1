#include "muster/preprocessing/discretization.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/preprocessing/internal/adapt.h"
#include "muster/preprocessing/internal/checks.h"
#include "muster/preprocessing/internal/encode.h"
#include "muster/preprocessing/internal/quantile_sketch.h"
#include "muster/preprocessing/internal/tensor_layer.h"
#include "muster/tensor/bucketize.h"

namespace muster::inline v0_1 {
namespace {

void check_discretization(const DiscretizationOptions& options) {
  const std::vector<double>& boundaries = options.bin_boundaries;
  if (boundaries.empty()) {
    internal::check_at_least("Discretization", "num_bins", options.num_bins, 1);
  } else if (options.num_bins != 0) {
    throw invalid_argument(
        fmt::format("Discretization: num_bins is {}, and there are {} boundaries", options.num_bins,
                    boundaries.size()),
        "give bin_boundaries, or num_bins and call adapt()");
  }
  for (const double boundary : boundaries) {
    if (std::isnan(boundary))
      throw invalid_argument("Discretization: bin_boundaries has a NaN", "boundaries are numbers");
  }
  const auto descent = std::is_sorted_until(boundaries.begin(), boundaries.end());
  if (descent != boundaries.end()) {
    throw invalid_argument(
        fmt::format("Discretization: bin_boundaries has {} after {}", *descent, *(descent - 1)),
        "boundaries ascend");
  }
  if (!(options.epsilon > 0 && options.epsilon < 1)) {
    throw invalid_argument(fmt::format("Discretization: epsilon is {}", options.epsilon),
                           "epsilon must be more than 0 and less than 1");
  }
  internal::check_output_mode(
      "Discretization", options.output_mode,
      {OutputMode::kInt, OutputMode::kOneHot, OutputMode::kMultiHot, OutputMode::kCount});
}

}  // namespace

class Discretization::Impl final : public internal::TensorLayerImpl {
 public:
  explicit Impl(DiscretizationOptions options, bool adapted = false)
      : TensorLayerImpl("discretization", options.name),
        options_(std::move(options)),
        ready_(adapted || !options_.bin_boundaries.empty()) {}

  Tensor apply(const Tensor& input) const override {
    if (!ready_) {
      throw invalid_argument("Discretization: there are no boundaries yet",
                             "give bin_boundaries, or use what adapt() returns");
    }
    const Tensor bins = bucketize(input, options_.bin_boundaries);
    return internal::encode(bins, options_.output_mode,
                            static_cast<int64_t>(options_.bin_boundaries.size()) + 1);
  }

  const DiscretizationOptions& options() const { return options_; }
  bool ready() const { return ready_; }

 private:
  DiscretizationOptions options_;
  bool ready_;  // one bin has no boundaries
};

Discretization::Discretization(DiscretizationOptions options) {
  check_discretization(options);
  impl_ = std::make_shared<Impl>(std::move(options));
}

Discretization::Discretization(Made, std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Discretization Discretization::adapt(const Tensor& batch) const {
  return adapt(Dataset::from_tensors(batch));
}

Discretization Discretization::adapt(const Dataset& batches) const {
  DiscretizationOptions options = impl_->options();
  if (impl_->ready()) {
    throw invalid_argument("Discretization.adapt: there are boundaries already",
                           "set num_bins instead of bin_boundaries, and call adapt() once");
  }
  internal::QuantileSketch sketch(options.epsilon);
  internal::for_each_value(
      "Discretization", batches, [&](const Value& value, const std::string& where) {
        const Tensor numbers = internal::finite_doubles(value.tensor(), where);
        sketch.add({numbers.data_ptr<double>(), static_cast<size_t>(numbers.numel())});
      });
  if (sketch.count() == 0) {
    throw invalid_argument("Discretization.adapt: the data has no numbers: " + batches.describe());
  }
  options.bin_boundaries = sketch.boundaries(options.num_bins);
  return Discretization(Made(), std::make_shared<const Impl>(std::move(options), /*adapted=*/true));
}

Tensor Discretization::operator()(const Tensor& input) const { return impl_->apply(input); }
Discretization::operator Layer() const { return Layer(impl_); }

const std::vector<double>& Discretization::bin_boundaries() const {
  return impl_->options().bin_boundaries;
}

}  // namespace muster::inline v0_1

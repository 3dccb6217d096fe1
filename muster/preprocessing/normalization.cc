#include "muster/preprocessing/normalization.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/preprocessing/internal/adapt.h"
#include "muster/preprocessing/internal/tensor_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// Returns the axes counted from the front, ascending.
std::vector<int64_t> axes_of(const std::vector<int64_t>& given, const Tensor& input) {
  std::vector<int64_t> axes;
  for (const int64_t axis : given) {
    if (axis < -input.dim() || axis >= input.dim()) {
      throw invalid_argument(
          fmt::format("Normalization: axis is {}, of the input {}", axis, describe(input)),
          fmt::format("axes are between {} and {}", -input.dim(), input.dim() - 1));
    }
    axes.push_back(axis < 0 ? axis + input.dim() : axis);
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    throw invalid_argument(
        fmt::format("Normalization: axis is [{}], which names an axis of {} twice",
                    fmt::join(given, ", "), describe(input)));
  }
  return axes;
}

// Mean and variance of rows that come one after another.
class RunningMoments {
 public:
  explicit RunningMoments(const std::vector<int64_t>& axis) : axis_(axis) {}

  void add(const Tensor& batch, const std::string& where) {
    const Tensor values = internal::finite_doubles(batch, where);
    if (values.dim() == 0) {
      throw invalid_argument(fmt::format("{} is {}, which has no rows", where, describe(batch)),
                             "call batch() before");
    }
    const std::vector<int64_t> axes =
        values.dim() == 1 ? std::vector<int64_t>() : axes_of(axis_, values);
    Shape kept;
    for (const int64_t axis : axes) kept.push_back(values.size(axis));
    if (!axes.empty() && axes[0] == 0) {
      throw invalid_argument(fmt::format("Normalization: axis [{}] is that of the batch, of {}",
                                         fmt::join(axis_, ", "), describe(batch)));
    }
    if (!kept_) start(kept);
    if (kept != *kept_) {
      throw invalid_argument(fmt::format("{} is {}; the axes that are kept were {}, and are {} now",
                                         where, describe(batch), describe(*kept_), describe(kept)));
    }
    std::vector<int64_t> order;
    for (int64_t axis = 0; axis < values.dim(); ++axis) {
      if (!std::binary_search(axes.begin(), axes.end(), axis)) order.push_back(axis);
    }
    order.insert(order.end(), axes.begin(), axes.end());
    add_rows(values.permute(order).contiguous());
  }

  const Shape& kept() const { return *kept_; }
  int64_t count() const { return count_; }
  const std::vector<double>& mean() const { return mean_; }
  std::vector<double> variance() const {
    std::vector<double> variance = squares_;
    for (double& value : variance) value /= static_cast<double>(count_);
    return variance;
  }

 private:
  void start(const Shape& kept) {
    kept_ = kept;
    mean_.assign(static_cast<size_t>(c10::multiply_integers(kept)), 0);
    squares_ = mean_;
  }

  // [the axes that are averaged over, the kept axes]. Row after row, so that batches leave no trace
  // in the bits.
  void add_rows(const Tensor& values) {
    const size_t width = mean_.size();
    const double* row = values.data_ptr<double>();
    const double* const end = row + values.numel();
    for (; row != end; row += width) {
      const double share = 1.0 / static_cast<double>(++count_);
      for (size_t i = 0; i < width; ++i) {
        const double from_old = row[i] - mean_[i];
        mean_[i] += from_old * share;
        squares_[i] += from_old * (row[i] - mean_[i]);
      }
    }
  }

  const std::vector<int64_t>& axis_;
  std::optional<Shape> kept_;
  int64_t count_ = 0;
  std::vector<double> mean_, squares_;
};

void check_normalization(const NormalizationOptions& options) {
  if (std::find(options.axis.begin(), options.axis.end(), 0) != options.axis.end()) {
    throw invalid_argument("Normalization: axis is 0, which is that of the batch",
                           "name other axes; none gives one mean for all");
  }
  if (options.mean.empty() != options.variance.empty() ||
      options.mean.size() != options.variance.size()) {
    throw invalid_argument(
        fmt::format("Normalization: {} numbers are given for mean, {} for variance",
                    options.mean.size(), options.variance.size()),
        "give both, as many of one as of the other, or none and call adapt()");
  }
  for (const double value : options.mean) {
    if (std::isfinite(value)) continue;
    throw invalid_argument(fmt::format("Normalization: mean has {}", value),
                           "means must be finite");
  }
  for (const double value : options.variance) {
    if (std::isfinite(value) && value >= 0) continue;
    throw invalid_argument(fmt::format("Normalization: variance has {}", value),
                           "variances must be finite and at least 0");
  }
}

}  // namespace

class Normalization::Impl final : public internal::TensorLayerImpl {
 public:
  // `kept` holds the sizes that adapt() found, and nothing where mean and variance were given.
  Impl(NormalizationOptions options, std::optional<Shape> kept)
      : TensorLayerImpl("normalization", options.name),
        options_(std::move(options)),
        kept_(std::move(kept)) {}

  Tensor apply(const Tensor& input) const override {
    if (options_.mean.empty()) {
      throw invalid_argument("Normalization: there is no mean and no variance yet",
                             "give them, or use what adapt() returns");
    }
    const Tensor values = input.is_floating_point() ? input : input.to(kFloat32);
    const Shape shape = shape_for(input);
    std::vector<double> deviations = options_.variance;
    for (double& value : deviations) value = std::max(std::sqrt(value), 1e-7);
    const auto tensor_of = [&](const std::vector<double>& numbers) {
      return torch::tensor(numbers, kFloat64).to(values.options()).view(shape);
    };
    const Tensor mean = tensor_of(options_.mean), deviation = tensor_of(deviations);
    return options_.invert ? values * deviation + mean : (values - mean) / deviation;
  }

  bool keeps_steps() const override { return true; }
  const NormalizationOptions& options() const { return options_; }

 private:
  // The shape in which mean and variance meet the input.
  Shape shape_for(const Tensor& input) const {
    Shape shape(static_cast<size_t>(input.dim()), 1);
    const auto count = static_cast<int64_t>(options_.mean.size());
    if (kept_ ? kept_->empty() : count == 1) return shape;
    Shape kept;
    for (const int64_t axis : axes_of(options_.axis, input)) {
      shape[static_cast<size_t>(axis)] = input.size(axis);
      kept.push_back(input.size(axis));
    }
    if (kept_ ? kept != *kept_ : c10::multiply_integers(kept) != count) {
      throw invalid_argument(
          fmt::format("Normalization: the input {} has {} along axis [{}], and the mean has {}",
                      describe(input), describe(kept), fmt::join(options_.axis, ", "),
                      kept_ ? describe(*kept_) : fmt::format("{} numbers", count)));
    }
    return shape;
  }

  NormalizationOptions options_;
  std::optional<Shape> kept_;
};

Normalization::Normalization(NormalizationOptions options) {
  check_normalization(options);
  impl_ = std::make_shared<Impl>(std::move(options), std::nullopt);
}

Normalization::Normalization(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Normalization Normalization::adapt(const Tensor& batch) const {
  return adapt(Dataset::from_tensors(batch));
}

Normalization Normalization::adapt(const Dataset& batches) const {
  NormalizationOptions options = impl_->options();
  if (!options.mean.empty()) {
    throw invalid_argument("Normalization.adapt: there are a mean and a variance already",
                           "leave them out of the options, and adapt once");
  }
  RunningMoments moments(options.axis);
  internal::for_each_value(
      "Normalization", batches,
      [&](const Value& value, const std::string& where) { moments.add(value.tensor(), where); });
  if (moments.count() == 0) {
    throw invalid_argument("Normalization.adapt: the data has no rows: " + batches.describe());
  }
  options.mean = moments.mean();
  options.variance = moments.variance();
  return Normalization(std::make_shared<const Impl>(std::move(options), moments.kept()));
}

Tensor Normalization::operator()(const Tensor& input) const { return impl_->apply(input); }
Normalization::operator Layer() const { return Layer(impl_); }
const std::vector<double>& Normalization::mean() const { return impl_->options().mean; }
const std::vector<double>& Normalization::variance() const { return impl_->options().variance; }

}  // namespace muster::inline v0_1

#include "muster/layers/constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::constraints {
namespace {

constexpr double kEpsilon = 1e-7;  // Keras's, against a division by 0

// Returns the axes counted from the front.
std::set<int64_t> axes_of(const char* name, const std::vector<int64_t>& axis, const Tensor& value) {
  std::set<int64_t> axes;
  for (const int64_t each : axis) {
    const int64_t front = each < 0 ? each + value.dim() : each;
    if (front >= 0 && front < value.dim() && axes.insert(front).second) continue;
    throw invalid_argument(
        fmt::format("{}: axis is {}, of the weight {}", name, describe(axis), describe(value)),
        fmt::format("each axis is named once, and is between {} and {}", -value.dim(),
                    value.dim() - 1));
  }
  return axes;
}

// LibTorch cuts a long sum over all elements into as many parts as there are threads. Parts of a
// fixed size give the same bits on all replicas, whatever threads they have.
Tensor sum_along(const Tensor& value, int64_t axis) {
  constexpr int64_t kPart = 16384;
  std::vector<Tensor> parts;
  for (const Tensor& part : value.split(kPart, axis)) parts.push_back(part.sum(axis, true));
  return parts.size() == 1 ? parts[0] : at::cat(parts, axis).sum(axis, /*keepdim=*/true);
}

// Returns the norms over these axes, which keep size 1 in the result.
Tensor norms(const char* name, const std::vector<int64_t>& axis, const Tensor& value) {
  Tensor sum = value.square();
  for (const int64_t each : axes_of(name, axis, value)) sum = sum_along(sum, each);
  return sum.sqrt();
}

void check_axis_given(const char* name, const std::vector<int64_t>& axis) {
  const std::set<int64_t> once(axis.begin(), axis.end());
  if (!axis.empty() && once.size() == axis.size()) return;
  throw invalid_argument(fmt::format("{}: axis is {}", name, describe(axis)),
                         "axis names at least one, and each once");
}

// Makes a constraint that gives everything the norm `desired(norm)`.
template <typename Desired>
Constraint with_norm(const char* name, std::string description, std::vector<int64_t> axis,
                     Desired desired) {
  check_axis_given(name, axis);
  const auto function = [name, axis, desired](const Tensor& value) {
    const Tensor norm = norms(name, axis, value);
    return value * (desired(norm) / (norm + kEpsilon));
  };
  return Constraint(std::move(description), function, std::move(axis));
}

}  // namespace

Constraint max_norm(double max_value, std::vector<int64_t> axis) {
  internal::check_at_least_zero("max_norm", "max_value", max_value);
  const std::string description = fmt::format("max_norm({}, {})", max_value, describe(axis));
  return with_norm("max_norm", description, std::move(axis),
                   [max_value](const Tensor& norm) { return norm.clamp_max(max_value); });
}

Constraint non_neg() {
  return Constraint(
      "non_neg()", [](const Tensor& value) { return value.clamp_min(0); }, std::vector<int64_t>());
}

Constraint unit_norm(std::vector<int64_t> axis) {
  check_axis_given("unit_norm", axis);
  const std::string description = fmt::format("unit_norm({})", describe(axis));
  const auto function = [axis](const Tensor& value) {
    return value / (norms("unit_norm", axis, value) + kEpsilon);
  };
  return Constraint(description, function, std::move(axis));
}

Constraint min_max_norm(MinMaxNormOptions options) {
  internal::check_at_least_zero("min_max_norm", "min_value", options.min_value);
  internal::check_at_least_zero("min_max_norm", "max_value", options.max_value);
  if (options.min_value > options.max_value) {
    throw invalid_argument(fmt::format("min_max_norm: min_value is {}, and max_value {}",
                                       options.min_value, options.max_value),
                           "min_value must be at most max_value");
  }
  if (!(options.rate >= 0 && options.rate <= 1)) {
    throw invalid_argument(fmt::format("min_max_norm: rate is {}", options.rate),
                           "rate must be between 0 and 1");
  }
  const std::string description =
      fmt::format("min_max_norm({}, {}, {}, {})", options.min_value, options.max_value,
                  options.rate, describe(options.axis));
  return with_norm("min_max_norm", description, options.axis, [options](const Tensor& norm) {
    return norm.clamp(options.min_value, options.max_value) * options.rate +
           norm * (1 - options.rate);
  });
}

}  // namespace muster::inline v0_1::constraints

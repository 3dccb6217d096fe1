#include "muster/optim/internal/segment.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::optim::internal {
namespace {

void check_fits(const UpdateRule& rule, const char* what, const Tensor& weights,
                const Tensor& tensor) {
  if (!tensor.defined()) {
    throw invalid_argument(
        fmt::format("{}: the {} of the segment is undefined", rule.name(), what));
  }
  if (tensor.dim() != 1 || !tensor.is_contiguous() || tensor.numel() != weights.numel() ||
      tensor.scalar_type() != weights.scalar_type() || tensor.device() != weights.device()) {
    throw invalid_argument(
        fmt::format("{}: the {} of the segment is {} on {}, the weights are {} on {}", rule.name(),
                    what, describe(tensor), tensor.device().str(), describe(weights),
                    weights.device().str()),
        "weights, gradient and slots must be contiguous, one-dimensional and of the same length, "
        "dtype and device");
  }
}

}  // namespace

void check_segment(const UpdateRule& rule, const Segment& segment) {
  if (!segment.weights.defined()) {
    throw invalid_argument(
        fmt::format("{}: the weights of the segment are undefined", rule.name()));
  }
  const DType dtype = segment.weights.scalar_type();
  if (!is_weight_dtype(dtype)) {
    throw invalid_argument(
        fmt::format("{}: cannot update {} weights", rule.name(), dtype_name(dtype)),
        "use " + weight_dtype_names() + " variables");
  }
  check_fits(rule, "weights", segment.weights, segment.weights);
  check_fits(rule, "gradient", segment.weights, segment.gradient);
  const size_t slots = rule.slots().size();
  if (segment.slots.size() != slots) {
    throw invalid_argument(fmt::format("{}: the segment has {} slots, the rule needs {}",
                                       rule.name(), segment.slots.size(), slots));
  }
  for (const Tensor& slot : segment.slots) check_fits(rule, "slot", segment.weights, slot);
}

void mark_written(const Tensor& weights) { weights.unsafeGetTensorImpl()->bump_version(); }

}  // namespace muster::inline v0_1::optim::internal

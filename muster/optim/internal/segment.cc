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

void check_shaped(const UpdateRule& rule, const SlotSpec& spec, const Tensor& weights,
                  const Tensor& slot) {
  int64_t length = 1;
  for (const int64_t size : *spec.shape) length *= size;
  if (slot.defined() && slot.dim() == 1 && slot.is_contiguous() && slot.numel() == length &&
      slot.scalar_type() == weights.scalar_type() && slot.device() == weights.device())
    return;
  throw invalid_argument(
      fmt::format("{}: the slot {} of the segment is {}, the weights are {} on {}", rule.name(),
                  spec.name,
                  slot.defined() ? describe(slot) + " on " + slot.device().str() : "undefined",
                  describe(weights), weights.device().str()),
      fmt::format("it must be contiguous, one-dimensional, {} long, and of their dtype and device",
                  length));
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
  const std::vector<SlotSpec> slots = rule.slots_differ() && segment.variable != nullptr
                                          ? rule.slots_of(*segment.variable)
                                          : rule.slots();
  if (segment.slots.size() != slots.size()) {
    throw invalid_argument(fmt::format("{}: the segment has {} slots, the rule needs {}",
                                       rule.name(), segment.slots.size(), slots.size()));
  }
  for (size_t s = 0; s < slots.size(); ++s) {
    const Tensor& slot = segment.slots[s];
    if (!slots[s].shape) {
      check_fits(rule, "slot", segment.weights, slot);
    } else {
      check_shaped(rule, slots[s], segment.weights, slot);
    }
  }
}

void mark_written(const Tensor& weights) { weights.unsafeGetTensorImpl()->bump_version(); }

}  // namespace muster::inline v0_1::optim::internal

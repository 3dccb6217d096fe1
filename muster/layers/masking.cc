#include "muster/layers/masking.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class MaskingImpl final : public LayerImpl {
 public:
  MaskingImpl(double mask_value, std::string name)
      : LayerImpl("masking", std::move(name)), mask_value_(mask_value) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const Tensor& input = internal::single_tensor(context, identity(), inputs, /*takes_mask=*/true);
    context.name_of(identity());
    if (input.dim() < 2) {
      internal::refuse_input(context, identity(), "[batch, steps, features]", input);
    }
    Tensor mask = input.ne(mask_value_).any(-1);
    if (!inputs.masks.empty() && inputs.masks[0].defined()) {
      Tensor given = inputs.masks[0];
      // A mask may have all of the input's axes.
      if (given.dim() == input.dim()) given = given.any(-1);
      while (given.dim() < mask.dim()) given = given.unsqueeze(-1);
      mask = mask.logical_and(given);
    }
    return {.tensors = {input.masked_fill(mask.logical_not().unsqueeze(-1), 0)}, .masks = {mask}};
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  double mask_value_;
};

class RemoveMaskImpl final : public LayerImpl {
 public:
  explicit RemoveMaskImpl(std::string name) : LayerImpl("remove_mask", std::move(name)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    context.name_of(identity());
    return {.tensors = {internal::single_tensor(context, identity(), inputs, /*takes_mask=*/true)}};
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }
};

}  // namespace

Layer Masking(double mask_value, std::string name) {
  if (std::isnan(mask_value)) {
    throw invalid_argument(internal::titled("Masking", name) + ": mask_value is nan",
                           "mask_value must be a number: nothing equals one that is none");
  }
  return Layer(std::make_shared<MaskingImpl>(mask_value, std::move(name)));
}

Layer RemoveMask(std::string name) {
  return Layer(std::make_shared<RemoveMaskImpl>(std::move(name)));
}

Tensor sequence_mask(const Tensor& lengths, std::optional<int64_t> steps) {
  if (!lengths.defined() || lengths.dim() != 1 ||
      (lengths.scalar_type() != kInt64 && lengths.scalar_type() != kInt32)) {
    throw invalid_argument(
        fmt::format("sequence_mask: lengths is {}",
                    lengths.defined() ? describe(lengths) : "an undefined tensor"),
        "lengths must be int64 or int32 [batch]");
  }
  if (lengths.lt(0).any().item<bool>()) {
    throw invalid_argument(
        fmt::format("sequence_mask: a length is {}", lengths.min().item<int64_t>()),
        "lengths must be at least 0");
  }
  if (steps && *steps < 0) {
    throw invalid_argument(fmt::format("sequence_mask: steps is {}", *steps),
                           "steps must be at least 0");
  }
  const int64_t longest = lengths.numel() == 0 ? 0 : lengths.max().item<int64_t>();
  return at::arange(steps.value_or(longest), lengths.options()).lt(lengths.unsqueeze(1));
}

}  // namespace muster::inline v0_1

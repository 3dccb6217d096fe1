#include "muster/layers/activity_regularization.h"

#include <memory>
#include <utility>

#include "muster/layers/internal/checks.h"
#include "muster/layers/regularizers.h"
#include "muster/layers/unary_layer.h"

namespace muster::inline v0_1 {
namespace {

class ActivityRegularizationImpl final : public UnaryLayerImpl {
 public:
  ActivityRegularizationImpl(Regularizer regularizer, std::string name)
      : UnaryLayerImpl("activity_regularization", std::move(name)),
        regularizer_(std::move(regularizer)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_floating(context, identity(), input);
    if (input.dim() < 1) internal::refuse_input(context, identity(), "[batch, ...]", input);
    context.add_activity_loss(regularizer_, input);
    return input;
  }

  bool keeps_steps() const override { return true; }
  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  Regularizer regularizer_;
};

}  // namespace

Layer ActivityRegularization(ActivityRegularizationOptions options) {
  internal::check_at_least_zero(internal::titled("ActivityRegularization", options.name), "l1",
                                options.l1);
  internal::check_at_least_zero(internal::titled("ActivityRegularization", options.name), "l2",
                                options.l2);
  return Layer(std::make_shared<ActivityRegularizationImpl>(
      regularizers::l1_l2({.l1 = options.l1, .l2 = options.l2}), std::move(options.name)));
}

}  // namespace muster::inline v0_1

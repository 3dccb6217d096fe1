#include "muster/layers/time_distributed.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// Shows [batch * steps, ...] as [batch, steps, ...].
Tensor in_steps(const Tensor& examples, const Tensor& like) {
  Shape shape = examples.sizes().vec();
  shape[0] = like.size(0);
  shape.insert(shape.begin() + 1, like.size(1));
  return examples.reshape(shape);
}

class TimeDistributedImpl final : public LayerImpl {
 public:
  TimeDistributedImpl(Layer layer, std::string name)
      : LayerImpl("time_distributed", std::move(name)), layer_(std::move(layer)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const Tensor& input = internal::single_tensor(context, identity(), inputs, /*takes_mask=*/true);
    context.name_of(identity());
    if (input.dim() < 2) {
      internal::refuse_input(context, identity(), "[batch, steps, ...]", input);
    }
    const Tensor mask = inputs.masks.empty() ? Tensor() : inputs.masks[0];
    LayerInputs examples{.tensors = {input.flatten(0, 1)}};
    if (mask.defined() && mask.dim() > 2) examples.masks = {mask.flatten(0, 1)};
    const LayerOutputs results = call_on_steps(examples, input, context);
    LayerOutputs outputs;
    for (size_t i = 0; i < results.tensors.size(); ++i) {
      const Tensor& result = results.tensors[i];
      if (result.dim() < 1 || result.size(0) != examples.tensors[0].size(0)) {
        throw invalid_argument(
            fmt::format("layer {}: its layer made {} of {}", context.name_of(identity()),
                        describe(result), describe(examples.tensors[0])),
            "it must give an example for each step");
      }
      outputs.tensors.push_back(in_steps(result, input));
      const bool has_mask = i < results.masks.size() && results.masks[i].defined();
      outputs.masks.push_back(mask_of(mask, has_mask ? results.masks[i] : Tensor(), input));
    }
    return outputs;
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  // The layer is called with shapes that no caller made, so its errors name their origin.
  LayerOutputs call_on_steps(const LayerInputs& examples, const Tensor& input,
                             CallContext& context) const {
    try {
      return layer_(examples, context);
    } catch (const Error& error) {
      throw error.with_detail(fmt::format("which layer {} made of the steps of {}",
                                          context.name_of(identity()), describe(input)));
    }
  }

  // `mask` belongs to the input, `result` to the layer's result; both may be undefined.
  static Tensor mask_of(const Tensor& mask, const Tensor& result, const Tensor& input) {
    if (!result.defined()) {
      Tensor steps = mask;
      while (steps.defined() && steps.dim() > 2) steps = steps.any(-1);
      return steps;
    }
    const Tensor own = in_steps(result, input);
    if (!mask.defined() || mask.dim() > 2) return own;
    Tensor of_steps = mask;
    while (of_steps.dim() < own.dim()) of_steps = of_steps.unsqueeze(-1);
    return own.logical_and(of_steps);
  }

  Layer layer_;
};

}  // namespace

Layer TimeDistributed(Layer layer, std::string name) {
  return Layer(std::make_shared<TimeDistributedImpl>(std::move(layer), std::move(name)));
}

}  // namespace muster::inline v0_1

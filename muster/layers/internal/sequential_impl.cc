#include "muster/layers/internal/sequential_impl.h"

#include <algorithm>
#include <span>

#include "muster/layers/internal/call_layer.h"
#include "muster/layers/sequential.h"

namespace muster::inline v0_1 {
namespace internal {

SequentialImpl::SequentialImpl(std::vector<Layer> layers) : LayerImpl("sequential", "") {
  for (Layer& layer : layers) {
    if (const auto* inner = dynamic_cast<const SequentialImpl*>(&layer.impl())) {
      layers_.insert(layers_.end(), inner->layers_.begin(), inner->layers_.end());
    } else {
      layers_.push_back(std::move(layer));
    }
  }
  std::vector<const LayerImpl*> impls;
  for (const Layer& layer : layers_) impls.push_back(&layer.impl());
  for (std::span<const LayerImpl* const> left = impls; !left.empty();) {
    const Step step{.layer = left[0], .run = LayerRun(left)};
    left = left.subspan(std::max<size_t>(step.run.size(), 1));
    steps_.push_back(step);
  }
}

LayerOutputs SequentialImpl::call(const LayerInputs& inputs, CallContext& context) const {
  LayerValues values = inputs;
  for (size_t i = 0; i < steps_.size(); ++i) {
    // The state a layer in between ended with is not the next layer's.
    if (i > 0) values.state.clear();
    const Step& step = steps_[i];
    values = step.run ? step.run.call(values, context) : call_layer(*step.layer, values, context);
  }
  return values;
}

}  // namespace internal

Layer Sequential(std::vector<Layer> layers) {
  return Layer(std::make_shared<internal::SequentialImpl>(std::move(layers)));
}

}  // namespace muster::inline v0_1

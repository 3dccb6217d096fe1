// Sequential has a name here, so that its layers can be listed.
#pragma once

#include <utility>
#include <vector>

#include "muster/layers/internal/layer_run.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

class SequentialImpl final : public LayerImpl {
 public:
  explicit SequentialImpl(std::vector<Layer> layers);
  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override;
  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

  // A Sequential among them is replaced by its layers.
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  struct Step {
    const LayerImpl* layer = nullptr;
    LayerRun run{};  // this layer and those after it
  };

  std::vector<Layer> layers_;
  std::vector<Step> steps_;
};

}  // namespace muster::inline v0_1::internal

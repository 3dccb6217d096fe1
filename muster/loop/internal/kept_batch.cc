#include "muster/loop/internal/kept_batch.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

KeptBatch::KeptBatch(const Batch* batch) {
  if (batch == nullptr) return;
  const torch::NoGradGuard no_grad;
  for (const ElementView* part : std::initializer_list<const ElementView*>{
           &batch->features, &batch->labels, &batch->weights}) {
    for (const Value& value : part->element().values()) {
      if (value.is_tensor() && value.tensor().defined())
        kept_.emplace_back(value.tensor(), value.tensor().clone());
    }
  }
}

void KeptBatch::put_back() const {
  const torch::NoGradGuard no_grad;
  for (const auto& [tensor, copy] : kept_) {
    if (tensor.sizes() == copy.sizes()) {
      tensor.copy_(copy);
    } else {  // as unsqueeze_() leaves it
      tensor.set_data(copy);
    }
  }
}

}  // namespace muster::inline v0_1::distribute

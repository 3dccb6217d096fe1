// The state recurrent layers and their cells are given: some tensors [batch, size].
// Thread safety: functions of the thread the context belongs to.
#pragma once

#include <vector>

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// Throws InvalidArgument "layer lstm: expected a state float32[2, 3], was given float32[2, 4]"
// unless there is a tensor [rows, size] for each size, of the dtype of `like`.
void check_state(CallContext& context, const LayerIdentity& layer, const std::vector<Tensor>& state,
                 const std::vector<int64_t>& sizes, int64_t rows, const Tensor& like);

// Makes such a state of zeros, of the dtype and on the device of `like`.
std::vector<Tensor> zero_state(const std::vector<int64_t>& sizes, int64_t rows, const Tensor& like);

}  // namespace muster::inline v0_1::internal

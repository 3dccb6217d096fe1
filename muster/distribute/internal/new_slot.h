// Makes the slots of one variable. Thread safety: a pure function.
#pragma once

#include "muster/optim/update_rule.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::distribute::internal {

// Returns a contiguous tensor of the slot's shape, with its initial value, on the variable's
// device.
inline Tensor new_slot(const Variable& variable, const optim::SlotSpec& slot) {
  if (slot.begins_as_weights) return variable.value().detach().clone(at::MemoryFormat::Contiguous);
  return torch::full(slot.shape.value_or(variable.spec().shape), slot.initial_value,
                     variable.value().options().requires_grad(false));
}

}  // namespace muster::inline v0_1::distribute::internal

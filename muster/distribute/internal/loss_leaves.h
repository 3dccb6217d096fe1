// The tensors that a loss depends on. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/distribute/variable_table.h"

namespace muster::inline v0_1::distribute::internal {

// The leaves of a loss that require a gradient.
struct LossLeaves {
  bool variables = false;           // some of them are variables
  std::vector<std::string> others;  // the other leaves, which are not trained
};

// Empty for a loss that requires no gradient.
LossLeaves leaves_of(const Tensor& loss, const VariableTable& table);

// Advice for the others.
inline constexpr const char* kTensorsMadeElsewhere =
    "tensors made elsewhere do not train: use layers, or ask for variables where the loss is made, "
    "with ModelContext::variable() or ReplicaContext::current().variable(); a module of LibTorch "
    "registers its parameters and modules, and comes from torch_module()";

}  // namespace muster::inline v0_1::distribute::internal

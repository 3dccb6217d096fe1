// Finds numbers that are not finite, for the error that ends a run.
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>

#include "muster/tensor/features.h"
#include "muster/tensor/variable.h"

namespace muster {

// "variable cnn/dense/kernel holds nan (element 17 of float32[10, 2])"; nothing when all numbers
// are finite.
std::optional<std::string> find_non_finite(const std::string& name, const Tensor& tensor);
// The first variable, in creation order, that is not finite.
std::optional<std::string> find_non_finite(const VariableStore& variables);
// The first of: features, labels, variables, the loss; what a non-finite loss comes from.
std::string explain_non_finite(const Features& features, const Labels& labels,
                               const VariableStore& variables, const Tensor& loss);

}  // namespace muster

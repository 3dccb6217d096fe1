// Finds numbers that are not finite, for the error that ends a run.
// Thread safety: pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "muster/tensor/features.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {

// "variable cnn/dense/kernel holds nan (element 17 of float32[10, 2])"; nothing when all numbers
// are finite.
std::optional<std::string> find_non_finite(const std::string& name, const Tensor& tensor);
// The first variable, in creation order, that is not finite.
std::optional<std::string> find_non_finite(const VariableStore& variables);
// The same of the values the variables have in `values`, by name; those not in it are passed over.
std::optional<std::string> find_non_finite(const VariableStore& variables,
                                           const std::map<std::string, Tensor>& values);
// What a non-finite loss comes from: "the batch's feature "x" holds nan in row 5 of float32[64,
// 3]".
struct NonFiniteCause {
  std::string text;
  std::string hint;  // mend the data, or lower the learning rate
};
// The first of: features, labels, variables, the loss.
NonFiniteCause explain_non_finite(const Features& features, const Labels& labels,
                                  const VariableStore& variables, const Tensor& loss);

}  // namespace muster::inline v0_1

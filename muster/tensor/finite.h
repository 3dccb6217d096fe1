// Finds numbers that are not finite, for the error that ends a run, or out of a range.
// Thread safety: pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/tensor/features.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {

// Whether no number of the tensor is infinite or NaN; true for an undefined one and for one without
// floating-point numbers.
bool all_finite(const Tensor& tensor);
// Whether all numbers of the tensor, which has a real dtype, are from `low` to `high`, both
// inclusive; false if one is NaN, and true for no numbers.
MUSTER_PART_EXPORT bool all_between(const Tensor& tensor, double low, double high);
// Returns "variable cnn/dense/kernel holds nan (element 17 of float32[10, 2])", and nothing when
// all numbers are finite.
MUSTER_PART_EXPORT std::optional<std::string> find_non_finite(const std::string& name,
                                                              const Tensor& tensor);
// Describes the first variable, in creation order, that is not finite.
MUSTER_PART_EXPORT std::optional<std::string> find_non_finite(const VariableStore& variables);
// Looks at the values that the variables have in `values`, by name; others are passed over.
MUSTER_PART_EXPORT std::optional<std::string> find_non_finite(
    const VariableStore& variables, const std::map<std::string, Tensor>& values);
// Says where a loss that is not finite comes from: "the batch's feature "x" holds nan in row 5 of
// float32[64, 3]".
struct NonFiniteCause {
  std::string text{};
  std::string hint{};  // mend the data, or lower the learning rate
};
// Looks at features, labels, variables and the loss, in this order, and names the first that is not
// finite.
NonFiniteCause explain_non_finite(const Features& features, const Labels& labels,
                                  const VariableStore& variables, const Tensor& loss);

}  // namespace muster::inline v0_1

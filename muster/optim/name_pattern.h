// NamePattern is a regular expression that chooses variables, and the option that holds it.
// Thread safety: a value.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

struct NamePattern {
  std::string owner{};    // "freeze"
  std::string field{};    // "variables"
  std::string pattern{};  // "^encoder/", RE2 syntax; searched for in variables' names
};

// Returns the `patterns` that match none of the `names`, in their order. Throws InvalidArgument for
// an invalid regular expression.
MUSTER_EXPORT std::vector<NamePattern> unmatched(const std::vector<NamePattern>& patterns,
                                                 const std::vector<std::string>& names);

}  // namespace muster::inline v0_1::optim

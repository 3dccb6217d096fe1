// NamePattern is a regular expression by which an optimizer chooses variables, and who has it.
// Thread safety: a value.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

struct NamePattern {
  std::string owner{};    // "freeze"
  std::string field{};    // "variables"
  std::string pattern{};  // "^encoder/", of RE2; it is searched for in variables' names
};

// Gives those of `patterns` that are found in none of the `names`, in their order. Throws
// InvalidArgument for what is no regular expression.
MUSTER_EXPORT std::vector<NamePattern> unmatched(const std::vector<NamePattern>& patterns,
                                                 const std::vector<std::string>& names);

}  // namespace muster::inline v0_1::optim

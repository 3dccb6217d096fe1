// "Did you mean …": the known word nearest to the typed one. Thread safety: a pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Returns the entry of `known` that `word` misspells: at most a third of its letters (one at least)
// are left out, added, changed or swapped with a neighbour. Otherwise it returns the entry that
// `word` abbreviates, as "k8s" abbreviates "kubernetes", or the only word that begins with `word`,
// or nothing. '-' and '_' count as the same, and so do capitals and small letters.
MUSTER_PART_EXPORT std::optional<std::string> nearest(std::string_view word,
                                                      const std::vector<std::string>& known);

}  // namespace muster::inline v0_1

// "Did you mean …": the known word that somebody may have wanted to type. Thread safety: a pure
// function.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1 {

// The word of `known` that `word` is a misspelling of: at most a third of its letters (at least
// one) left out, added, changed or swapped with their neighbour; else the only one that begins with
// `word`. '-' and '_' are the same, and so are capitals and small letters. Nothing when no word is
// near.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace muster::inline v0_1

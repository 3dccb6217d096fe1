// Variables of a launcher of which a part is there, and the one rule for them: a process with a
// rank above 0, a size above 1, or a rank without a size is one of several processes, and must not
// train alone. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/cluster/cluster_source.h"

namespace muster::inline v0_1::cluster::internal {

// What the number in a variable counts.
enum class Counts {
  kRank,       // which process this is: above 0, or where no size is known, there are others
  kSize,       // how many there are: above 1 there are others
  kLocalSize,  // how many there are on this machine: the same, and 1 says nothing about all
  kMaybe,      // what need not be processes of one cluster: pieces of work, tasks of an allocation
  kNothing,    // it holds no number
};

// A variable by which a launcher tells a process its place.
struct PlaceVariable {
  const char* name{};
  Counts counts{};
  bool needed = true;  // without it the launcher is not seen
  bool own = true;     // it tells this launcher from others
  // The number that a text stands for; nothing where it is none.
  std::optional<int64_t> (*read)(const std::string& text) = nullptr;  // unset: the text is one
};

// Returns what of the variables is there and what lacks, or nothing where none of the launcher's
// own is set or none that is needed lacks. `fix` says what to do, in the words of an order;
// `instead`, where it is not "", is why the launcher does not count although nothing lacks.
std::optional<PartialEnvironment> find_partial_environment(const Environment& environment,
                                                           std::span<const PlaceVariable> variables,
                                                           std::string_view fix,
                                                           std::string_view instead = "");

// Of several the one that is nearest to a cluster: of those that mean one, else of those that are
// worth a note, that which lacks the fewest variables; of equals the first. nullptr: none of them
// is worth a word.
const PartialEnvironment* plainest(std::span<const PartialEnvironment> partials);

// The error for one that means a cluster; the note for another.
Error refusal_of(const PartialEnvironment& partial);
std::string note_of(const PartialEnvironment& partial);

}  // namespace muster::inline v0_1::cluster::internal

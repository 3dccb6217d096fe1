// The rule for variables of a launcher that are only partly set: a process with a rank above 0, a
// size above 1, or a rank and no size is one of several processes, and must not train alone next to
// the others. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/environment.h"
#include "muster/cluster/cluster_source.h"

namespace muster::inline v0_1::cluster::internal {

// The quantity that the number in a variable counts.
enum class Counts {
  kRank,       // which process this is: above 0, or where no size is known, there are others
  kSize,       // how many there are: above 1 there are others
  kLocalSize,  // how many there are on this machine: the same, and 1 says nothing about all
  kMaybe,      // may not be processes of one cluster: pieces of work, tasks of an allocation
  kNothing,    // it holds no number
};

// A variable by which a launcher gives a process its place.
struct PlaceVariable {
  const char* name{};
  Counts counts{};
  bool needed = true;  // without it the launcher is not seen
  bool own = true;     // it distinguishes this launcher from others
  // The number that a text means; nothing if it is none.
  std::optional<int64_t> (*read)(const std::string& text) = nullptr;  // unset: the text is one
};

// Returns which of the variables are set and which are missing, or nothing if none of the
// launcher's own is set or none of the needed ones is missing. `fix` says what to do, in the
// imperative; `instead`, if it is not "", is why the launcher does not count although no variable
// is missing.
std::optional<PartialEnvironment> find_partial_environment(const Environment& environment,
                                                           std::span<const PlaceVariable> variables,
                                                           std::string_view fix,
                                                           std::string_view instead = "");

// Returns the one of several that is nearest to a cluster: among those that mean one, else among
// those that are worth a note, the one that lacks the fewest variables; of equals the first.
// nullptr: none of them is worth a note.
const PartialEnvironment* plainest(std::span<const PartialEnvironment> partials);

// The error for variables that mean a cluster; the note for others.
Error refusal_of(const PartialEnvironment& partial);
std::string note_of(const PartialEnvironment& partial);

}  // namespace muster::inline v0_1::cluster::internal

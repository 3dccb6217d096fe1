// Compares the settings that must be the same on all replicas, before a run begins: replicas that
// differ would train different models, or wait for each other in vain. Thread safety: belongs to
// the replica's thread.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/distribute/group.h"
#include "muster/distribute/replica_place.h"

namespace muster::inline v0_1::distribute {

class Replica;

// Names, as users know them, and their values as text.
using Settings = std::vector<std::pair<std::string, std::string>>;

// The text that reports a difference.
struct DifferenceText {
  std::string said = "the tasks of this run were started differently";
  std::string hint = "start every task with the same program, flags and data";
};

// All replicas call it together, with settings of the same names. Throws InvalidArgument on every
// replica when some differ, listing the value of each worker: "max_steps is 400 on worker 0, 300 on
// worker 1".
MUSTER_PART_EXPORT void check_same(Group& group, const ReplicaPlace& place,
                                   const Settings& settings, const DifferenceText& text = {});

// The same for replicas whose programs may be at different places, as loops written by hand may:
// they use a collective, which reports that at once, whereas gathering texts would wait. Costs a
// collective of a few bytes; texts are sent only if something differs.
MUSTER_PART_EXPORT void check_same(Replica& replica, const Settings& settings);

// The same if there is no Group yet: `gather` is the call that collects texts by rank.
using GatherText =
    std::function<std::vector<std::string>(const std::string& name, const std::string& text)>;
MUSTER_PART_EXPORT void check_same(const GatherText& gather, const std::string& task,
                                   const Settings& settings, const DifferenceText& text = {});

}  // namespace muster::inline v0_1::distribute

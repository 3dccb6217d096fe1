// Which worker's memory an elastic run continues from. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::inline v0_1::internal {

// The state that a replica has in memory.
struct RememberedStep {
  std::string chief{};  // the chief's process that led the group, or the one that the replica is
  int64_t epoch = -1;   // of the group that trained it; -1: the replica has no state
  int64_t step = -1;    // after which it is
};

// The replica whose state counts, by what each replica has, the chief first: the one of the highest
// epoch, of these the one of the highest step, of these the first. -1 if no replica has a state. A
// state of another chief's process does not count. That chief may have saved later steps, and the
// epochs of two coordinators cannot be compared, since their dates may differ.
inline int find_donor(const std::vector<RememberedStep>& all) {
  int donor = -1;
  for (int replica = 0; replica < static_cast<int>(all.size()); ++replica) {
    const RememberedStep& of = all[static_cast<size_t>(replica)];
    if (of.epoch < 0 || of.chief != all.front().chief) continue;
    const auto place = [&](int at) {
      const RememberedStep& one = all[static_cast<size_t>(at)];
      return std::pair(one.epoch, one.step);
    };
    if (donor < 0 || place(replica) > place(donor)) donor = replica;
  }
  return donor;
}

}  // namespace muster::inline v0_1::internal

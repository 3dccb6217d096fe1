// The last collectives of this process, for the report that a task leaves when it fails. A call
// costs a lock and a clock. Thread-safe. Collectives on a device are not recorded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::inline v0_1 {

// A collective that this process has called.
struct CollectiveCall {
  std::string transport{};  // "TCP"
  int rank = 0;
  int size = 1;
  uint64_t number = 0;    // 1, 2, ... in its communicator, the same on all ranks
  std::string call{};     // "all_reduce #17 of 250 float32"
  double before = 0;      // seconds from the call until now
  double seconds = -1;    // that it took; 0: not measured; below 0: it has not ended
  std::string failure{};  // why it failed; "" when it did not
};

// How many calls are kept.
inline constexpr size_t kCollectivesKept = 64;

// The last calls over all communicators of this process, the oldest first. It does not wait.
std::vector<CollectiveCall> last_collectives();

}  // namespace muster::inline v0_1

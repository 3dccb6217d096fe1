// Which process this is, for others that want to know whether it has ended.
// Thread safety: pure functions of the system's state.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

struct ProcessIdentity {
  // Identifies the scope in which process numbers are unique: this boot of the machine and this
  // name space of processes. Empty if that cannot be determined.
  std::string space{};
  int64_t process = 0;
};

ProcessIdentity own_process();

// Whether it is known to have ended, even if its parent has not asked how. False for a process of
// another machine or container, of which nothing is known, and while another one has its number.
bool has_ended(const ProcessIdentity& other);

// Distinguishes a process of a task from an earlier one: a random number, never 0.
MUSTER_PART_EXPORT uint64_t new_incarnation();

}  // namespace muster::inline v0_1

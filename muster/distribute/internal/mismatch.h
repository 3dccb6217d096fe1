// The error when replicas are in different collectives. Thread safety: a pure function.
#pragma once

#include <string>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute::internal {

// Calls `fn`, which meets the other replicas. When they are in another collective, its
// InvalidArgument says where this replica is: `where`.
template <typename Fn>
void meet_at(const std::string& where, Fn fn) {
  try {
    fn();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    throw invalid_argument(where + ", and another replica is elsewhere: " + error.message(),
                           "call the same collectives in the same order on all replicas; a replica "
                           "without examples calls them with zeros");
  }
}

}  // namespace muster::inline v0_1::distribute::internal

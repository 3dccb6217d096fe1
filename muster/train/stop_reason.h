// Why a run ends whose replicas agreed to stop, and the error of each of them. Thread safety:
// belongs to the replica's thread.
#pragma once

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/distribute/group.h"

namespace muster::inline v0_1 {

class MUSTER_PART_EXPORT StopReason {
 public:
  // All replicas call it together after a step that asked them to stop; `asked`: this task was
  // asked to. Nothing if no task was: a hook asked for it.
  static std::optional<StopReason> agree(distribute::Group& group, bool asked);

  // The error that ends the run on this replica, to be thrown when all are through: Cancelled
  // ("stopped by SIGTERM after saving step 7"), or, if another task was asked, Unavailable, since
  // all have to be started again. `where` names the saved state: "after saving step 7"; `kept`:
  // whether the same command continues from a saved state, and does not begin anew.
  Error error(const std::string& where, bool kept = true) const;

 private:
  StopReason(bool asked, size_t first) : asked_(asked), first_(first) {}

  bool asked_;
  size_t first_;  // the first replica whose task was asked
};

}  // namespace muster::inline v0_1

// Why a run ends whose replicas agreed to stop, and what each of them says.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/distribute/group.h"

namespace muster::inline v0_1 {

class MUSTER_PART_EXPORT StopReason {
 public:
  // All replicas call it together after a step that told them to stop; `name`:
  // ReplicaPlace::name(); `asked`: this task was asked to. Nothing where no task was: a hook asked
  // for it.
  static std::optional<StopReason> agree(distribute::Group& group, const std::string& name,
                                         bool asked);

  // What the run ends with on this replica, to be thrown when all are through: Cancelled ("stopped
  // by SIGTERM after saving step 7"), or, where another task was asked, Unavailable, since all have
  // to be started again. `where` says what is kept: "after saving step 7"; `kept`: whether the same
  // command continues from something, and does not begin again.
  Error error(const std::string& where, bool kept = true) const;

 private:
  StopReason(bool asked, std::string first) : asked_(asked), first_(std::move(first)) {}

  bool asked_;
  std::string first_;  // the first replica whose task was asked
};

}  // namespace muster::inline v0_1

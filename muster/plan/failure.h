// The failure that ended a group: task, reason, and where that task was. Values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/plan/phase.h"

namespace muster::inline v0_1::plan {

// "worker:1" -> "worker 1", "chief:0" -> "chief": as messages name a task.
MUSTER_PART_EXPORT std::string readable_task(std::string_view task);

struct MUSTER_PART_EXPORT Failure {
  std::string task{};  // "": connections between tasks broke, and no task is lost
  int rank = -1;       // -1: not a member of the group
  ErrorKind kind = ErrorKind::kPeerLost;
  std::string reason{};
  int64_t step = -1;  // -1: no step yet
  Phase phase = Phase::kJoining;

  // "worker 1 was lost, last heard of at step 120 (training): no heartbeat for 6.0 s"
  std::string describe() const;
  bool operator==(const Failure&) const = default;
  static auto fields(auto& m) {
    return std::tie(m.task, m.rank, m.kind, m.reason, m.step, m.phase);
  }
};

}  // namespace muster::inline v0_1::plan

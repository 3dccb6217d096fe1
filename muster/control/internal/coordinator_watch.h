// Decides when a task gives its coordinator up: after a silence, or when the coordinator cannot be
// reached and does not come back. Pure: `now` is seconds on any clock that only moves forward.
// Thread safety: none, the owner locks.
#pragma once

#include <optional>
#include <string>

#include "muster/control/join_options.h"
#include "muster/plan/membership.h"

namespace muster::inline v0_1::control {

// The seconds between tries when the last one had no answer.
inline constexpr double kRetrySeconds = 0.1;
// A request may take this many seconds longer than the wait it asks for before it counts as
// unanswered.
inline constexpr double kAnswerTimeout = 3;
// A wait looks so often whether it shall end.
inline constexpr double kLookSeconds = 0.5;

class CoordinatorWatch {
 public:
  CoordinatorWatch(const JoinOptions& options, double now);

  // The seconds to wait before the next beat.
  double pause() const { return missed_ ? kRetrySeconds : options_.heartbeat_interval; }
  // Begins a beat; returns how many seconds its answer may take. A beat that begins later than
  // pause() says, or ends later than that, shows that this process itself stood still: that time
  // does not count as silence of the coordinator.
  double begin_beat(double now);
  void answered(double now);
  // The beat had no answer. `unreachable` says that there is no connection, rather than no answer
  // in time.
  void unanswered(bool unreachable, double now);
  // Returns why the coordinator counts as lost, or nothing when it does not.
  std::optional<std::string> why_lost(double now) const;

 private:
  // A beat that was due at that time comes now.
  void forgive_lateness(double due, double now);

  const JoinOptions& options_;
  const plan::MembershipRules rules_;
  const double answer_time_;
  plan::Pulse pulse_;      // of the coordinator
  double last_end_;        // of a beat
  double answer_due_ = 0;  // of the beat that has begun
  bool missed_ = false;    // the last beat had no answer
};

}  // namespace muster::inline v0_1::control

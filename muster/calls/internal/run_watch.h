// The view of a chief that schedules calls on its workers and servers while it waits. Thread
// safety: belongs to the chief's thread.
#pragma once

#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/calls/internal/remote_replica.h"
#include "muster/ps/closures.h"

namespace muster::inline v0_1::distribute {

class RunWatch {
 public:
  static constexpr double kLookSeconds = 0.5;    // between two looks at other events that may end a
                                                 // wait
  static constexpr double kRunningSeconds = 60;  // for calls that run when the run ends

  // Both outlive it. The first worker is waited for `join_timeout` seconds, and later ones
  // `restart_timeout`, if none is present.
  RunWatch(ps::ClosureHost& host, RemoteReplica& replica, double join_timeout,
           double restart_timeout)
      : host_(host),
        replica_(replica),
        join_timeout_(join_timeout),
        restart_timeout_(restart_timeout) {}

  // Throws the error that ends a wait: the failure of the run, Timeout if no worker has been
  // present for too long, PeerLost if a server is lost. The chief follows the servers' step.
  void look();
  // Cancels the calls that no worker has begun, with the reason `why`, and waits for the running
  // ones, within limits.
  void cancel(const std::string& why);

 private:
  ps::ClosureHost& host_;
  RemoteReplica& replica_;
  const double join_timeout_, restart_timeout_;  // seconds
  std::optional<TimePoint> looked_;              // at the servers
};

}  // namespace muster::inline v0_1::distribute

// What a chief that schedules calls sees of its workers and servers while it waits. Thread safety:
// belongs to the chief's thread.
#pragma once

#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/calls/internal/remote_replica.h"
#include "muster/ps/closures.h"

namespace muster::inline v0_1::distribute {

class RunWatch {
 public:
  static constexpr double kLookSeconds = 0.5;    // between two looks at what else may end a wait
  static constexpr double kRunningSeconds = 60;  // for calls that run when the run ends

  // Both outlive it. `join_timeout` seconds the first worker is waited for, and
  // `restart_timeout` others, where none is there.
  RunWatch(ps::ClosureHost& host, RemoteReplica& replica, double join_timeout,
           double restart_timeout)
      : host_(host),
        replica_(replica),
        join_timeout_(join_timeout),
        restart_timeout_(restart_timeout) {}

  // Throws what ends a wait: the failure of the run, Timeout where no worker has been there for too
  // long, PeerLost where a server is lost. The chief follows the step the servers are at.
  void look();
  // Takes back what no worker has begun, saying `why`, and waits for what runs, within limits.
  void cancel(const std::string& why);

 private:
  ps::ClosureHost& host_;
  RemoteReplica& replica_;
  const double join_timeout_, restart_timeout_;  // seconds
  std::optional<TimePoint> looked_;              // at the servers
};

}  // namespace muster::inline v0_1::distribute

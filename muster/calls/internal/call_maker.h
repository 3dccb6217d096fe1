// The calls that one worker makes: on the batches of its own data sets.
// Thread safety: belongs to the worker's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/calls/internal/remote_functions.h"
#include "muster/calls/internal/remote_replica.h"
#include "muster/data/iterator.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/ps/closures.h"

namespace muster::inline v0_1::distribute {

class CallMaker {
 public:
  // Worker `worker` of `workers`. The replica and the functions outlive it.
  CallMaker(RemoteReplica& replica, const RemoteFunctions& functions, int worker, int workers)
      : replica_(replica), functions_(functions), worker_(worker), workers_(workers) {}

  // Reads the next batch if the function has data, and calls it. Throws the errors of
  // RemoteReplica::call(); NotFound for an undefined function.
  RemoteReplica::Made make(const ps::Closure& closure);

 private:
  Batch next_batch(const RemoteFunctions::Data& data);

  RemoteReplica& replica_;
  const RemoteFunctions& functions_;
  const int worker_, workers_;
  std::map<std::string, std::unique_ptr<Iterator>> open_;  // by name of the data set
};

// The work of a worker's task: makes the calls that the chief schedules until the run is over, and
// joins the run again when it loses the chief or a server, within the given number of seconds.
void make_calls(const Strategy& strategy, const ps::ClosureOptions& options,
                const RemoteFunctions& functions, double restart_timeout);

}  // namespace muster::inline v0_1::distribute

// The run that workers share which train at their own pace: the ledger that decides which steps
// count, and the weights and optimizers that live on servers. A replica in step with others has
// none. Thread safety: belongs to the replica's thread.
//
// The order of calls: set_batch_form(); the build, in which variables are placed; on the chief,
// unless live(), state() is written; begin(); then begin_step() before each step, whose update the
// Updater makes; end_steps(). Any call may throw PeerLost naming the server or the task that
// failed, Timeout, or the error that ended the run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/distribute/served_state.h"

namespace muster::inline v0_1::distribute {

class Replica;

class SharedRun {
 public:
  virtual ~SharedRun() = default;

  // How batches look, as encode_batch_spec() says it: servers build the model on zero rows of it.
  virtual void set_batch_form(const std::string& form) = 0;

  // --- on the chief, after the build --- Whether the servers hold the state of this run already,
  // so that it continues from there.
  virtual bool live() const = 0;
  // The state on the servers.
  virtual ServedState& state() = 0;

  // How the run begins, on the chief. If it is live() already, this is ignored.
  struct Start {
    int64_t step = 0;
    std::vector<std::string> positions{};  // as in a ServedState::Cut; empty: all at the beginning
    std::function<std::optional<int64_t>(int64_t step)> last_step{};  // of a run at that step
  };
  // Where this worker begins.
  struct Place {
    int64_t step = 0;
    std::string position = {};
    bool over = false;  // the run has ended already
  };
  // Where this worker will begin, for callers that read data before the build. Waits until the
  // chief has begun the run; on the chief nothing, unless the servers hold the state of this run
  // already. begin() throws PeerLost if the run began again meanwhile.
  virtual std::optional<Place> find_place() = 0;
  // The argument of the chief's set_batch_form(). REQUIRES: find_place() has found a run that is
  // not over.
  virtual std::string batch_form() = 0;
  // Begins the run, or waits until the chief has begun it.
  virtual Place begin(const Start& start) = 0;

  // Sets the function that returns the iterator state of this worker's data, after the batches it
  // has read.
  virtual void set_position(std::function<std::string()> position) = 0;
  // Asks for a step, and brings the weights here. False if there is no step to make: all is over,
  // or this task was asked to stop. With `also_when_told` a request to stop counts only if the task
  // would have to wait.
  virtual bool begin_step(bool also_when_told = false) = 0;
  // Brings the weights here as they are now, without a step.
  virtual void read_weights() = 0;
  // Throws PeerLost naming a server that has not the weights of this run any more. Returns the
  // updates so far.
  virtual int64_t check() = 0;
  // Whether the chief has ended the run.
  virtual bool ended() = 0;
  // The worker's last step is made. kTold: this task alone was asked to stop, and leaves; if it is
  // the chief, no task continues.
  enum class End { kOver, kNoMoreData, kAsked, kTold };
  // Waits until no worker makes a step any more, and, except on the chief, until the chief has
  // ended the run or released the workers; a worker that was asked to stop does not wait. Meanwhile
  // `others_go_on` is called now and then with the number of updates so far. Returns their number
  // at the end.
  virtual int64_t end_steps(End end, const std::function<void(int64_t step)>& others_go_on) = 0;

  // On the chief, after end_steps() and the last save: the others need not wait any more.
  virtual void let_go() = 0;
  // On the chief: waits until every other worker has left, or is lost.
  virtual void wait_for_leaving() = 0;

  // Numbers of the run so far, by the names of their summaries.
  virtual std::map<std::string, double> measures() = 0;
};

// Throws InvalidArgument if the replica's workers train at their own pace, because `what` cannot be
// done there: "boosted trees".
MUSTER_PART_EXPORT void check_in_step(const Replica& replica, const std::string& what);

}  // namespace muster::inline v0_1::distribute

// What workers share that train at their own pace: the ledger that says which steps count, and the
// weights and optimizers that live on servers. A replica in step with others has none.
// Thread safety: belongs to the replica's thread.
//
// The order of calls: set_batch_form(); the build, in which variables are placed; on the chief,
// unless live(), state() is written; begin(); then begin_step() before each step, whose update the
// Updater makes; end_steps(). Any call may throw PeerLost naming the server or the task that
// failed, Timeout, or what ended the run.
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

  // --- on the chief, after the build ---
  // Whether the servers hold the state of this run already, so that it continues from there.
  virtual bool live() const = 0;
  // What the servers hold.
  virtual ServedState& state() = 0;

  // How the run begins, on the chief. Where it is live() already, nothing of it counts.
  struct Start {
    int64_t step = 0;
    std::vector<std::string>
        positions{};  // as those of a ServedState::Cut; empty: all at the beginning
    std::function<std::optional<int64_t>(int64_t step)> last_step{};  // of a run at that step
  };
  // Where this worker begins.
  struct Place {
    int64_t step = 0;
    std::string position = {};
    bool over = false;  // the run has ended already
  };
  // Where this worker will begin, for who reads data before the build. Waits until the chief has
  // begun the run; on the chief nothing, unless the servers hold the state of this run already.
  // begin() throws PeerLost where the run began again meanwhile.
  virtual std::optional<Place> find_place() = 0;
  // What set_batch_form() was given by the chief. REQUIRES: find_place() has found a run that is
  // not over.
  virtual std::string batch_form() = 0;
  // Begins the run, or waits until the chief has begun it.
  virtual Place begin(const Start& start) = 0;

  // Says where this worker's data stands, after the batches it has read.
  virtual void set_position(std::function<std::string()> position) = 0;
  // Asks for a step, and brings the weights here. False when there is none to make: all is over, or
  // this task was told to stop; with `also_when_told` that counts only where it would have to wait.
  virtual bool begin_step(bool also_when_told = false) = 0;
  // Brings the weights here as they are now, without a step.
  virtual void read_weights() = 0;
  // On the chief: whether a server was asked to stop, and waits for a checkpoint. False again after
  // state() was read for one.
  virtual bool save_wanted() = 0;
  // On the chief: whether the run has a place for checkpoints. If it has none, a server that is
  // asked to stop leaves without one. By default it has.
  virtual void set_saves(bool saves) = 0;
  // On the chief: the checkpoint that state() was read for last is written. Servers that wait for
  // one leave, unless the run is at its end or this task is asked to stop as well.
  virtual void saved() = 0;
  // Throws PeerLost naming a server that has not the weights of this run any more. Gives the
  // updates so far.
  virtual int64_t check() = 0;
  // Whether the chief has ended the run.
  virtual bool ended() = 0;
  // The worker's last step is made. kTold: this task alone was told to stop, and leaves; where it
  // is the chief, nobody goes on.
  enum class End { kOver, kNoMoreData, kAsked, kTold };
  // Waits until no worker makes a step any more, and on others than the chief until it has ended
  // the run, or let them go; a worker that was told to stop does not wait. Meanwhile `others_go_on`
  // is called now and then with the number of updates so far. Returns their number at the end.
  virtual int64_t end_steps(End end, const std::function<void(int64_t step)>& others_go_on) = 0;

  // On the chief, after end_steps() and the last save: the others need not wait any more.
  virtual void let_go() = 0;
  // On the chief: waits until every other worker has left, or is lost.
  virtual void wait_for_leaving() = 0;

  // Numbers of the run so far, by the names of their summaries.
  virtual std::map<std::string, double> measures() = 0;
};

// Throws InvalidArgument where the replica's workers train at their own pace, for `what` cannot be
// done there: "boosted trees".
MUSTER_PART_EXPORT void check_in_step(const Replica& replica, const std::string& what);

}  // namespace muster::inline v0_1::distribute

// What the launcher of a machine does in a run on several machines: when it joins, when its tasks
// start and end, and with which exit code it leaves. It hears a RunView and says a NodeReport;
// node_run.h does what it decides. Pure: no clock, no thread, no network; `now` is seconds on any
// clock that only moves forward. Thread safety: none, the owner locks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/launch/supervise.h"
#include "muster/nodes/rendezvous.h"
#include "muster/nodes/rendezvous_link.h"

namespace muster::inline v0_1::nodes {

class Launcher {
 public:
  // Seconds for which a launcher that leaves waits until the rendezvous has heard it, and for which
  // the one that serves the rendezvous waits for the others.
  static constexpr double kLeaveTime = 2, kGoodbyeTime = 10;

  // `report`: who it is. `rendezvous`: its address, for messages. `join_time`: seconds until a
  // rendezvous that does not answer is given up.
  Launcher(NodeReport report, std::string rendezvous, double join_time);

  // What it says of itself now.
  const NodeReport& report() const { return report_; }

  enum class Next {
    kWait,
    kJoin,   // join()
    kStart,  // the tasks, of the view; then ended()
    kLeave,  // with exit_code()
  };
  // Decides by what was heard last. Not called while tasks run.
  Next next(const RunView& view, const std::optional<RendezvousLoss>& loss, double now);
  // The tasks of the next round will listen there.
  void join(std::vector<std::string> addresses);
  // What tasks that run must know of the other machines.
  launch::OtherGroups others(const RunView& view, const std::optional<RendezvousLoss>& loss);
  // How they are.
  void tasks_are(const launch::GroupState& tasks);
  // All have ended; `stop_signal`: because of a signal to this launcher, 0 if none.
  void ended(NodeOutcome outcome, int stop_signal);
  // A signal asks to stop while no tasks run. The second one does not wait for the others. Ctrl-C
  // after any signal kills the tasks of the others.
  void stop(int signal, double now);

  int exit_code() const { return exit_code_; }
  // Why it leaves before the run is over; "" if it does not, or a signal asked for it.
  const std::string& failure() const { return failure_; }
  // What it waits for, for messages.
  std::string awaited(const RunView& view, const std::optional<RendezvousLoss>& loss) const;

 private:
  enum class Phase { kHearing, kJoining, kRunning, kEnded };
  Next leave(int exit_code);
  void hear(const RunView& view);

  NodeReport report_;
  const std::string rendezvous_;
  const double join_time_;
  Phase phase_ = Phase::kHearing;
  uint64_t begun_in_ = 0;  // the rendezvous of the last round
  std::string lost_;       // why it ends its tasks: it was lost to it; "" if it was not
  std::optional<double> stop_until_;
  int stop_code_ = 0;
  int exit_code_ = 0;
  std::string failure_;
};

}  // namespace muster::inline v0_1::nodes

// One cell of the fault tables of several machines: two launchers of `muster run --nodes` on this
// machine, with a worker each, of which a launcher is struck in one phase, or, in an elastic run, a
// worker.
// Thread safety: several cells may be struck at a time, each by its own thread.
#pragma once

#include <string>
#include <vector>

namespace muster::testing {

struct NodeCell {
  int signal;  // SIGKILL, SIGTERM, SIGSTOP, which SIGCONT follows, or a blow of blow.h
  // "rendezvous" (the launcher of machine 0), "launcher" or "worker" (of machine 1)
  std::string victim;
  std::string phase;     // one of node_phases()
  bool elastic = false;  // --nodes=I/1:2

  std::string text() const;  // "SIGKILL of the rendezvous, step, two machines"
  // Whether there is such a process in the phase, and it can be struck so.
  bool possible() const;
};

struct NodeMeasured {
  double seconds = 0;                          // from the blow until no process of the run was left
  int rendezvous_code = 0, launcher_code = 0;  // minus the signal that ended it
  // After the same commands again, if the run did not come to its end. Of an elastic run: that each
  // example was used once per epoch, as its audit says.
  bool same_bits = false;
  // The broken promises, with the output; "" if all is well.
  std::string broken;
};

// In the order in which a run reaches them.
const std::vector<std::string>& node_phases();

// Runs the cell to the end of all its processes, within a bound. A launcher of machine 1 that is
// killed is started again at once, except in an elastic run.
NodeMeasured strike(const NodeCell& cell);

}  // namespace muster::testing

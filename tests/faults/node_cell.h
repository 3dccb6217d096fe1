// One cell of the fault table of several machines: two launchers of `muster run --nodes` on this
// machine, with a worker each, of which one launcher is struck in one phase.
// Thread safety: several cells may be struck at a time, each by its own thread.
#pragma once

#include <string>
#include <vector>

namespace muster::testing {

struct NodeCell {
  int signal;          // SIGKILL, SIGTERM, SIGSTOP, which SIGCONT follows, or a blow of blow.h
  std::string victim;  // "rendezvous" (the launcher of machine 0) or "launcher" (of machine 1)
  std::string phase;   // one of node_phases()

  std::string text() const;  // "SIGKILL of the rendezvous, step, two machines"
};

struct NodeMeasured {
  double seconds = 0;                          // from the blow until no process of the run was left
  int rendezvous_code = 0, launcher_code = 0;  // minus the signal that ended it
  bool same_bits = false;  // after the same commands again, if the run did not come to its end
  // The broken promises, with the output; "" if all is well.
  std::string broken;
};

// In the order in which a run reaches them.
const std::vector<std::string>& node_phases();

// Runs the cell to the end of all its processes, within a bound. A launcher of machine 1 that is
// killed is started again at once.
NodeMeasured strike(const NodeCell& cell);

}  // namespace muster::testing

// One cell of the fault table of parameter servers: a run of chief, worker, two servers and an
// evaluator of which one is killed, is asked to stop, or stands still for a while, in one phase.
// Thread safety: several cells may be struck at a time, each by its own thread.
#pragma once

#include <string>
#include <vector>

namespace muster::testing {

struct ServedCell {
  int signal;            // SIGKILL, SIGTERM, or SIGSTOP, which SIGCONT follows
  std::string task;      // "chief 0", "worker 0", "ps 0", "ps 1", "evaluator 0" or "launcher"
  std::string phase;     // one of served_phases()
  bool restarts = true;  // `muster run` starts it again

  std::string text() const;  // "SIGKILL of ps 1, save"
};

const std::vector<std::string>& served_tasks();
// In the order in which a run reaches them.
const std::vector<std::string>& served_phases();

// Runs the cell to the end of all its processes, within a bound. Returns the broken promises of
// docs/parameter_servers.md, with the output; "" if all is well: the exit code, the step of the
// last checkpoint, and that it can be read.
std::string broken(const ServedCell& cell);

}  // namespace muster::testing

// One cell of the fault table of parameter servers: a run of chief, worker, two servers and an
// evaluator, of which one, or `muster run` itself, is struck in one phase.
// Thread safety: several cells may be struck at a time, each by its own thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::testing {

struct ServedCell {
  int signal;            // SIGKILL, SIGTERM, SIGSTOP, which SIGCONT follows, or a blow of blow.h
  std::string task;      // "chief 0", "worker 0", "ps 0", "ps 1", "evaluator 0" or "launcher"
  std::string phase;     // one of served_phases()
  bool restarts = true;  // `muster run` starts it again

  std::string text() const;  // "SIGKILL of ps 1, save"
  // Whether the process can be struck so: `muster run` has no connections, and an evaluator may
  // have ended before the end of the others.
  bool possible() const;
};

struct ServedMeasured {
  double seconds = 0;  // from the blow until no process of the run was left
  int code = 0;        // of `muster run`; minus the signal that ended it
  int64_t saved = 0;   // the step of the last checkpoint; -1: there is none
  // The broken promises of docs/parameter_servers.md, with the output; "" if all is well: the exit
  // code, that no process is left, that the newest checkpoint that the run has named can be
  // read, and its step where the run comes to its end.
  std::string broken;
};

const std::vector<std::string>& served_tasks();
// In the order in which a run reaches them.
const std::vector<std::string>& served_phases();

// Runs the cell to the end of all its processes, within a bound.
ServedMeasured strike(const ServedCell& cell);

}  // namespace muster::testing

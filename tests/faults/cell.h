// One cell of the fault table: a run of two workers of which one, or `muster run` itself, is struck
// in one phase, and the result. Thread safety: several cells may be struck at a time, each by its
// own thread.
#pragma once

#include <string>
#include <vector>

#include "tests/faults/named.h"

namespace muster::testing {

struct Cell {
  int signal;             // SIGKILL, SIGSTOP, SIGTERM, or another blow of blow.h
  std::string victim;     // "worker" (worker 1), "chief" (worker 0) or "launcher"
  std::string phase;      // one of phases()
  std::string transport;  // "shared_memory" or "tcp"

  std::string text() const;  // "SIGKILL of the chief, save, tcp"
  // Whether the process can be struck so: `muster run` writes no files and has no connections.
  bool possible() const;
};

struct Measured {
  double seconds = 0;  // from the signal until no process of the run was left
  Named named;
  int code = 0;  // of `muster run`; minus the signal that ended it
  bool same_bits = false;
  std::string output;
  // The broken promises: one line for each. Empty if all is well.
  std::vector<std::string> broken;
};

// The last checkpoint of a run of these two workers that nobody disturbed.
const std::string& undisturbed(const std::string& transport);

// In the order in which a run reaches them.
const std::vector<std::string>& phases();
// No cell may take longer, in seconds. The longest is a task that stands still: 6 s of silence
// until it is noticed, 2 s in which the other fails to notify it, 15 s of `muster run`, and, when
// it runs again, 2 s for the broken connection and 2 s in which a chief waits for tasks that are
// gone.
constexpr double kBound = 30;
// How long the victim waits for the others to join; a cell in which one of them does not may take
// so much longer.
constexpr double kJoinSeconds = 20;

// Runs the cell, resumes it, and compares with an undisturbed run. Throws Timeout if the run does
// not come to the phase.
Measured strike(const Cell& cell);

}  // namespace muster::testing

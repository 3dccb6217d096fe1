// Runs a program to its end, or to a deadline, and keeps what it printed.
// Thread safety: any thread; each call is its own.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "muster/launch/exit_status.h"

namespace muster::app {

// How a program ended, and what it printed.
struct CompletedProcess {
  launch::ExitStatus status;
  bool timed_out = false;  // it was killed at the deadline
  std::string out;
  std::string err;
};

// Runs argv[0], which is a path. Its standard input is empty; of each output the first 4 MB are
// kept. Throws Error when it cannot be started.
CompletedProcess run_to_end(const std::vector<std::string>& argv,
                            std::chrono::milliseconds deadline);

}  // namespace muster::app

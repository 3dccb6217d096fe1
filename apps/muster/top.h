// The text of `muster top`: what the tasks of a run do now. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/summary/live_run.h"

namespace muster::app {

// How it is shown.
struct TopView {
  int columns = 100;
  int rows = 0;  // of the terminal; the rest of it shows the logs. 0: no logs
  bool color = false;
};

// Lines for a person: the run, who makes the others wait, a row for each replica with a bar of
// where its last steps went, what is saved, the servers' staleness, and the last lines of the logs.
std::vector<std::string> top_lines(const summary::LiveRun& run, const TopView& view);

// A line for each replica, as a log is read: "worker 1: running, step 40, 2.1 steps/s, input for
// 0.2 s"; then one for the straggler, if there is one.
std::vector<std::string> plain_lines(const summary::LiveRun& run);

// Whether all tasks that told of themselves have come to their end.
bool all_ended(const summary::LiveRun& run);

}  // namespace muster::app

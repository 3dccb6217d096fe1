// Runs a program to its end, or to a deadline, and keeps its output, or passes it on line by line.
// Thread safety: any thread; each call is its own.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/launch/exit_status.h"

namespace muster::inline v0_1::launch {

// How a program ended, and its output.
struct CompletedProcess {
  ExitStatus status{};
  bool timed_out = false;  // it was killed at the deadline, or because it was not wanted any more
  std::string out{};
  std::string err{};
};

// An action that is done once while a program still runs, when this time has passed.
struct SlowNotice {
  std::chrono::milliseconds after{};
  std::function<void()> tell = {};
};

// Runs argv[0], which is a path, or a name in PATH. Its standard input is empty; of each output the
// first 64 MB are kept. It runs in a session of its own: at the deadline it is killed with all it
// has started, Ctrl-C, SIGTERM and SIGHUP of this process reach it, and it has no terminal. Throws
// Error when it cannot be started.
CompletedProcess run_to_end(const std::vector<std::string>& argv,
                            std::chrono::milliseconds deadline, const SlowNotice& notice = {});

// The same without a deadline, for a program that prints while others work: `line` gets each line
// of its standard output, without the end, in parts if it is long (see Lines), and `out` stays
// empty. `unwanted` is called ten times a second; when it returns true, the program is killed.
CompletedProcess run_by_lines(const std::vector<std::string>& argv,
                              const std::function<void(std::string_view line)>& line,
                              const std::function<bool()>& unwanted);

// The same for a program that a user watches: its outputs go to the outputs of this process.
// `environment` is added to ours.
ExitStatus run_visibly(const std::vector<std::string>& argv,
                       const std::vector<std::pair<std::string, std::string>>& environment = {});

}  // namespace muster::inline v0_1::launch

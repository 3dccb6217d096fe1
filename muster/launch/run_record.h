// The record of a run that `muster run --report` keeps: when each task was started, and how it
// ended. `muster board` reads it. Thread safety: one thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "muster/launch/run.h"

namespace muster::inline v0_1::launch {

// The record's file in model_dir.
inline constexpr const char* kLaunchFile = "launch.json";

class RunRecord {
 public:
  // `command` is the command line of `muster run`.
  explicit RunRecord(std::vector<std::string> command);

  // Adds callbacks to the options of run(), and calls those that were there. The record must
  // outlive the run.
  void watch(RunOptions& options);
  // The record as JSON, when the run has ended with this code: {"command", "started", "ended",
  // "exit_code", "tasks": [{"name", "starts": [{"started", "ended", "exit", "code", "error"}]}]}.
  // Times are Unix seconds; "exit" says how the task ended, and "error" has its last words.
  std::string to_json(int exit_code) const;

 private:
  struct Start {
    double started = 0, ended = 0;  // `ended` is 0 for a task that could not be killed
    std::string exit{}, error{};
    int code = 0;
  };
  struct Task {
    std::string name{};
    std::vector<Start> starts{};
  };

  const std::vector<std::string> command_;
  const double started_;
  std::vector<Task> tasks_;
};

}  // namespace muster::inline v0_1::launch

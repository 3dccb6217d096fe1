// One child process: started in a session of its own, with its output on two pipes.
// Not thread-safe: the supervisor's loop owns it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>

#include "muster/launch/supervise.h"

namespace muster::inline v0_1::launch::internal {

struct Started {
  pid_t pid = -1;
  int out = -1;  // non-blocking read ends
  int err = -1;
};

// Throws Error when the program cannot be executed. `mask` is the signal mask the child gets.
Started start(const ProcessSpec& spec, const sigset_t& mask);

// How `pid` ended, if it has; it stays a zombie, so its group's id cannot be given to strangers.
std::optional<ExitStatus> peek_exit(pid_t pid);

// Sends to the whole group `pid` leads; a group that is gone is no error.
void signal_group(pid_t pid, int signal);

}  // namespace muster::inline v0_1::launch::internal

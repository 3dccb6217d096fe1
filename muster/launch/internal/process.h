// Starts a child process in a session of its own, with its output on two pipes. Not thread-safe:
// the supervisor's loop owns it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "muster/launch/supervise.h"

namespace muster::inline v0_1::launch::internal {

struct Started {
  pid_t pid = -1;
  int out = -1;  // non-blocking read ends
  int err = -1;
};

// Starts the process; `mask` becomes its signal mask, and `mark` joins its environment. Throws
// Error when the program cannot be executed.
Started start(const ProcessSpec& spec, const sigset_t& mask,
              const std::pair<std::string, std::string>& mark);

// Returns how `pid` ended, if it has. It stays a zombie, so that its group's id cannot be given to
// another process.
std::optional<ExitStatus> peek_exit(pid_t pid);

// Sends the signal to the whole group that `pid` leads; a group that is gone is not an error.
void signal_group(pid_t pid, int signal);

}  // namespace muster::inline v0_1::launch::internal

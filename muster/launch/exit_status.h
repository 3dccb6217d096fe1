// How a process ended, and its description for people. Thread safety: values.
#pragma once

#include <string>

namespace muster::inline v0_1::launch {

struct ExitStatus {
  int code = 0;    // its return value; 0 if a signal ended it
  int signal = 0;  // the signal that ended it; 0 when it returned by itself

  // Reads the status of waitpid().
  static ExitStatus from_wait_status(int status);

  bool ok() const { return code == 0 && signal == 0; }
  // Returns the shells' number: the code, or 128 + the signal's number.
  int shell_code() const { return signal != 0 ? 128 + signal : code; }

  bool operator==(const ExitStatus&) const = default;
};

// Returns "SIGKILL", or "signal 77" for a signal without a name.
std::string signal_name(int signal);

// Returns one phrase with the number and its meaning, such as "exit code 138 (lost a peer or a
// resource; asks to be restarted)" or "killed by SIGKILL (kill -9, or the machine ran out of
// memory)".
std::string explain(const ExitStatus& status);

}  // namespace muster::inline v0_1::launch

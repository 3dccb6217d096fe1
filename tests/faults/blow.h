// What strikes a process of a run: a signal, or something that the tester or the process itself
// does. Thread safety: free functions; a Brake has a thread of its own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>

#include "muster/base/error.h"

namespace muster::testing {

// Numbers that no signal has.
inline constexpr int kCutConnections = 1001;  // all connections of the process are closed
inline constexpr int kDiskFull = 1002;        // its files fail from now on, for lack of space
inline constexpr int kTenTimesSlower = 1003;  // it gets a tenth of the time

// "SIGKILL", "connections cut", "disk full", "ten times slower".
std::string blow_name(int blow);
// Whether the process does it itself, when the file FAULT_TRIGGER is there.
inline bool strikes_itself(int blow) { return blow == kCutConnections || blow == kDiskFull; }

// Calls `strike_once`, which starts a run, strikes a process of it in a phase and measures what
// follows, and returns what it returns. A process stays in a phase for a moment only, so on a busy
// machine a blow may be late: the run has ended well although the blow had to end it otherwise, or
// (NotFound is thrown) the process or its phase is gone. Then nothing was struck, and it is called
// again, up to 5 times. The last result and the last error stand.
template <typename Measured>
Measured strike_in_time(const std::function<Measured(bool* late)>& strike_once) {
  constexpr int kAttempts = 5;
  for (int attempt = 1;; ++attempt) {
    try {
      bool late = false;
      Measured measured = strike_once(&late);
      if (!late || attempt == kAttempts) return measured;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound || attempt == kAttempts) throw;
    }
  }
}

// Closes all connections of another process that this one may trace, as one of the same user that
// it has started; both sides of each see its end. Throws where the kernel does not allow it
// (pidfd_getfd(2): Linux 5.6, ptrace_scope).
void cut_connections(pid_t process);

// From now on no file of another process may grow, as on a full disk (with EFBIG in place of
// ENOSPC); processes that it starts later inherit this. For one that does not strike itself.
void fill_disk(pid_t process);

// The process stands still for nine tenths of the time, for as long as this lives.
class Brake {
 public:
  explicit Brake(pid_t process);
  // The process runs on.
  ~Brake();
  Brake(const Brake&) = delete;
  Brake& operator=(const Brake&) = delete;

 private:
  const pid_t process_;
  std::jthread thread_;
};

}  // namespace muster::testing

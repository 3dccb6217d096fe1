// Passes Ctrl-C, SIGTERM and SIGHUP on to process groups of their own, which the terminal's signals
// do not reach. Thread safety: any thread.
#pragma once

#include <sys/types.h>

#include <csignal>

namespace muster::inline v0_1::launch::internal {

// While an object of this class exists, the signals also go to the group that `leader` leads, and
// then to the handlers that were installed before; ignored signals stay ignored, as nohup requires.
class ForwardedSignals {
 public:
  explicit ForwardedSignals(pid_t leader);
  ~ForwardedSignals();
  ForwardedSignals(const ForwardedSignals&) = delete;
  ForwardedSignals& operator=(const ForwardedSignals&) = delete;

 private:
  int slot_ = -1;  // -1: there were too many
};

// Holds these signals back from this thread, so that none falls between the start of a process and
// its ForwardedSignals.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // The mask before: for the process that is started meanwhile.
  const sigset_t& former() const { return former_; }

 private:
  sigset_t former_;
};

}  // namespace muster::inline v0_1::launch::internal

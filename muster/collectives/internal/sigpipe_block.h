// Keeps SIGPIPE from a thread while it writes to sockets. No LibTorch here. Thread safety: one
// thread constructs and destroys it.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace muster::inline v0_1::internal {

// A write to a dead peer's socket is an error to report, not a signal that ends the process.
// Threads that are made meanwhile inherit the block.
class SigpipeBlock {
 public:
  SigpipeBlock() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlock() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    sigset_t pending;
    const timespec now{};
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1) {
      sigtimedwait(&pipe_, nullptr, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

}  // namespace muster::inline v0_1::internal

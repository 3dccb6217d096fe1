// Signals as something to read. Thread safety: one object in a process, made and destroyed by its
// main thread.
#pragma once

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <vector>

#include "muster/base/error.h"

namespace muster::inline v0_1::launch::internal {

// Blocks the signals that we read from a descriptor, and restores everything at the end.
class SignalScope {
 public:
  SignalScope() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&set, number);
    struct sigaction hangup {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);  // nohup wants it ignored
    sigprocmask(SIG_BLOCK, &set, &former_);
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &former_pipe_);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd_ < 0) {
      const int number = errno;
      restore();
      throw from_errno(number, "cannot open a signal descriptor");
    }
  }
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  ~SignalScope() {
    close(fd_);
    restore();
  }

  int fd() const { return fd_; }
  const sigset_t& former() const { return former_; }

  // Returns the signals that came since the last call, without SIGCHLD.
  std::vector<int> take() {
    std::vector<int> numbers;
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGCHLD) numbers.push_back(static_cast<int>(info.ssi_signo));
    }
    return numbers;
  }

 private:
  void restore() {
    sigaction(SIGPIPE, &former_pipe_, nullptr);
    sigprocmask(SIG_SETMASK, &former_, nullptr);
  }

  int fd_ = -1;
  sigset_t former_;
  struct sigaction former_pipe_ {};
};

}  // namespace muster::inline v0_1::launch::internal

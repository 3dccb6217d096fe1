#include "muster/launch/internal/forwarded_signals.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>

namespace muster::inline v0_1::launch::internal {
namespace {

constexpr std::array kForwarded = {SIGINT, SIGTERM, SIGHUP};

// A signal handler can use only globals, and may take no lock.
std::array<std::atomic<pid_t>, 4096> leaders;
std::array<struct sigaction, kForwarded.size()> former_actions;

std::mutex installing;  // guards the variables below, and former_actions
int forwarding = 0;     // how many objects there are

extern "C" void forward_signal(int number) {
  const int kept = errno;
  for (const std::atomic<pid_t>& leader : leaders) {
    if (const pid_t pid = leader.load(); pid > 0) kill(-pid, number);
  }
  for (std::size_t i = 0; i < kForwarded.size(); ++i) {
    if (kForwarded[i] != number) continue;
    const struct sigaction& former = former_actions[i];
    if (former.sa_handler == SIG_DFL) {
      // Held back while this handler runs; it ends the process afterwards.
      std::signal(number, SIG_DFL);
      std::raise(number);
    } else if (former.sa_handler != SIG_IGN) {
      former.sa_handler(number);
    }
  }
  errno = kept;
}

void install() {
  for (std::size_t i = 0; i < kForwarded.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = forward_signal;
    action.sa_flags = SA_RESTART;  // as std::signal() has it, whose handlers this one calls
    sigaction(kForwarded[i], nullptr, &former_actions[i]);
    // Handlers that take more arguments than a number are not called.
    const bool plain = (former_actions[i].sa_flags & SA_SIGINFO) == 0;
    if (plain && former_actions[i].sa_handler != SIG_IGN)
      sigaction(kForwarded[i], &action, nullptr);
  }
}

void restore() {
  for (std::size_t i = 0; i < kForwarded.size(); ++i) {
    struct sigaction now {};
    sigaction(kForwarded[i], nullptr, &now);
    // Another handler may have been set meanwhile.
    if (now.sa_handler == forward_signal) sigaction(kForwarded[i], &former_actions[i], nullptr);
  }
}

}  // namespace

ForwardedSignals::ForwardedSignals(pid_t leader) {
  const std::scoped_lock lock(installing);
  if (forwarding++ == 0) install();
  for (std::size_t i = 0; i < leaders.size(); ++i) {
    pid_t free = 0;
    if (!leaders[i].compare_exchange_strong(free, leader)) continue;
    slot_ = static_cast<int>(i);
    return;
  }
}

ForwardedSignals::~ForwardedSignals() {
  const std::scoped_lock lock(installing);
  if (slot_ >= 0) leaders[static_cast<std::size_t>(slot_)] = 0;
  if (--forwarding == 0) restore();
}

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int number : kForwarded) sigaddset(&held, number);
  pthread_sigmask(SIG_BLOCK, &held, &former_);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

}  // namespace muster::inline v0_1::launch::internal

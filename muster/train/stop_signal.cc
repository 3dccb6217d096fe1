#include "muster/train/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace muster::inline v0_1 {
namespace {

// A signal handler can use only globals.
std::atomic<int> requested{0};
std::atomic<bool> hung_up{false};

bool on_terminal = false;

void on_signal(int number) {
  // The parent is gone, such as a terminal that was closed: the task is asked to stop as by
  // SIGTERM.
  if (number == SIGHUP) {
    hung_up = true;
    number = SIGTERM;
  }
  if (requested.exchange(number) != 0) {
    if (number == SIGINT) _exit(128 + SIGINT);
    return;
  }
  if (number != SIGINT || !on_terminal) return;
  constexpr char kSaid[] =
      "\nstopping after this step; Ctrl-C again stops at once, without saving\n";
  const int before = errno;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kSaid, sizeof kSaid - 1);
  errno = before;
}

}  // namespace

void install_stop_handlers() {
  on_terminal = isatty(STDERR_FILENO) == 1;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup wants it ignored
}

int stop_signal() { return requested.load(); }

const char* stop_signal_name() {
  switch (stop_signal()) {
    case SIGINT:
      return "Ctrl-C";
    case SIGTERM:
      return hung_up ? "SIGHUP" : "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "its program";
  }
}

void clear_stop_signal() {
  requested.store(0);
  hung_up = false;
}

}  // namespace muster::inline v0_1

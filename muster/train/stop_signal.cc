#include "muster/train/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace muster {
namespace {

// A signal handler can reach nothing but globals.
std::atomic<int> requested{0};

void on_signal(int number) {
  if (requested.exchange(number) != 0 && number == SIGINT) _exit(128 + SIGINT);
}

}  // namespace

void install_stop_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int stop_signal() { return requested.load(); }

void clear_stop_signal() { requested.store(0); }

}  // namespace muster

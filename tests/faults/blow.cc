#include "tests/faults/blow.h"

#include <signal.h>

#include <chrono>

#include "muster/launch/exit_status.h"

namespace muster::testing {

std::string blow_name(int blow) {
  switch (blow) {
    case kCutConnections:
      return "connections cut";
    case kDiskFull:
      return "disk full";
    case kTenTimesSlower:
      return "ten times slower";
    default:
      return launch::signal_name(blow);
  }
}

Brake::Brake(pid_t process)
    : process_(process), thread_([process](const std::stop_token& stop) {
        // These waits are the fault itself.
        while (!stop.stop_requested()) {
          if (::kill(process, SIGSTOP) != 0) return;  // it has ended
          std::this_thread::sleep_for(std::chrono::milliseconds(45));
          ::kill(process, SIGCONT);
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
      }) {}

Brake::~Brake() {
  thread_.request_stop();
  thread_.join();
  ::kill(process_, SIGCONT);
}

}  // namespace muster::testing

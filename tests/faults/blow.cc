#include "tests/faults/blow.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "muster/base/error.h"
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

void cut_connections(pid_t process) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (handle < 0) throw from_errno(errno, "cannot open process " + std::to_string(process));
  std::error_code ended;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", ended)) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(entry.path(), closed);
    if (closed || !target.starts_with("socket:")) continue;
    const int number = std::stoi(entry.path().filename());
    const int copy = static_cast<int>(::syscall(SYS_pidfd_getfd, handle, number, 0));
    if (copy < 0 && errno == EPERM)
      throw from_errno(EPERM, "cannot take a descriptor of process " + std::to_string(process));
    if (copy < 0) continue;  // closed meanwhile
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(copy, reinterpret_cast<sockaddr*>(&peer), &size) == 0)
      ::shutdown(copy, SHUT_RDWR);
    ::close(copy);
  }
  ::close(handle);
}

void fill_disk(pid_t process) {
  rlimit limit{};
  if (::prlimit(process, RLIMIT_FSIZE, nullptr, &limit) == 0) {
    limit.rlim_cur = 1;
    if (::prlimit(process, RLIMIT_FSIZE, &limit, nullptr) == 0) return;
  }
  throw from_errno(errno, "cannot limit the files of process " + std::to_string(process));
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

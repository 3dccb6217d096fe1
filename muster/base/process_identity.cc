#include "muster/base/process_identity.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <random>

namespace muster::inline v0_1 {

ProcessIdentity own_process() {
  ProcessIdentity own{.process = ::getpid()};
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  char space[64];
  const ssize_t size = readlink("/proc/self/ns/pid", space, sizeof space);
  if (file >> boot && size > 0)
    own.space = boot + " " + std::string(space, static_cast<size_t>(size));
  return own;
}

bool has_ended(const ProcessIdentity& other) {
  if (other.space.empty() || other.process <= 0 || other.space != own_process().space) return false;
  return ::kill(static_cast<pid_t>(other.process), 0) != 0 && errno == ESRCH;
}

uint64_t new_incarnation() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) | 1;
}

}  // namespace muster::inline v0_1

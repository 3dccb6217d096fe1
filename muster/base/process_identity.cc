#include "muster/base/process_identity.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <random>

namespace muster::inline v0_1 {

namespace {

// "" where the system has none.
std::string read_boot() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  file >> boot;
  return boot;
}

}  // namespace

ProcessIdentity own_process() {
  // It stays as long as a process lives; the namespace of a process that forks may change.
  static const std::string boot = read_boot();
  ProcessIdentity own{.process = ::getpid()};
  char space[64];
  const ssize_t size = readlink("/proc/self/ns/pid", space, sizeof space);
  if (!boot.empty() && size > 0)
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

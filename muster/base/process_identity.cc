#include "muster/base/process_identity.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <random>
#include <sstream>

namespace muster::inline v0_1 {

namespace {

// "" where the system has none.
std::string read_boot() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  file >> boot;
  return boot;
}

// Whether all of its threads have ended, and its parent has not asked how.
bool is_zombie(int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  // Its name, in parentheses, may hold any character. Fields after it: the state, and as the 18th
  // the number of threads, since the first thread may end before the others.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state, skipped;
  int64_t threads = 0;
  fields >> state;
  for (int field = 2; field <= 17; ++field) fields >> skipped;
  return (fields >> threads) && state == "Z" && threads <= 1;
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
  // This process lives, in whatever space it is.
  if (other.process == ::getpid()) return false;
  if (other.space.empty() || other.process <= 0 || other.space != own_process().space) return false;
  if (::kill(static_cast<pid_t>(other.process), 0) != 0) return errno == ESRCH;
  return is_zombie(other.process);
}

uint64_t new_incarnation() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) | 1;
}

}  // namespace muster::inline v0_1

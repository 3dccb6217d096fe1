#include "muster/base/memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "muster/base/strings.h"

namespace muster::inline v0_1 {

uint64_t memory_limit() {
  constexpr uint64_t kNone = std::numeric_limits<int64_t>::max();
  uint64_t limit = kNone;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b" or "4:memory:/a/b"
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() < 3) continue;
    const std::vector<std::string> controllers = split(parts[1], ',');
    const bool second_version = parts[0] == "0" && parts[1].empty();
    if (!second_version && std::ranges::find(controllers, "memory") == controllers.end()) continue;
    const std::string root = second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    // Inside a container the path may be the host's, while only the root is mounted.
    std::string group = parts[2];
    for (;;) {
      const std::string folder = root + (group == "/" ? "" : group);
      const char* file = second_version ? "/memory.max" : "/memory.limit_in_bytes";
      std::ifstream text(folder + file);
      uint64_t bytes = 0;
      if (text >> bytes) limit = std::min(limit, bytes);  // "max" is not a number
      if (group.empty() || group == "/") break;
      group = group.substr(0, group.rfind('/'));
    }
  }
  // Without a limit, version 1 of control groups shows the greatest multiple of a page.
  return limit > kNone / 2 ? 0 : limit;
}

uint64_t memory_size() {
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t limit = memory_limit();
  return limit == 0 ? machine : std::min(machine, limit);
}

}  // namespace muster::inline v0_1

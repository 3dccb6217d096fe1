#include "muster/base/host_identity.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  if (!(file >> identity)) {
    throw Error(ErrorKind::kUnavailable, "cannot read /proc/sys/kernel/random/boot_id");
  }
  // Names of sockets belong to a network namespace.
  std::error_code ignored;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", ignored);
  return identity + "/" + network.string();
}

}  // namespace muster::inline v0_1

#include "muster/collectives/internal/host_identity.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {

std::string random_token() {
  uint64_t bits[2];
  if (getrandom(bits, sizeof(bits), 0) != sizeof(bits)) {
    throw Error(ErrorKind::kUnavailable,
                fmt::format("cannot get random numbers: {}", std::strerror(errno)));
  }
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  if (!(file >> identity)) {
    throw Error(ErrorKind::kUnavailable, "cannot read /proc/sys/kernel/random/boot_id");
  }
  // Names of sockets are those of a network namespace.
  std::error_code ignored;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", ignored);
  return identity + "/" + network.string();
}

}  // namespace muster::inline v0_1::internal

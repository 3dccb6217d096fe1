// Writes all bytes to a file descriptor. Thread safety: as write(2).
#pragma once

#include <unistd.h>

#include <cerrno>

#include "muster/base/bytes.h"

namespace muster::inline v0_1::internal {

// Returns errno, or 0.
inline int write_all(int fd, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace muster::inline v0_1::internal

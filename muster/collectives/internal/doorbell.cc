#include "muster/collectives/internal/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace muster::inline v0_1::internal {

void Doorbell::ring() {
  rings.fetch_add(1);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&rings), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::wait_for_ring(uint32_t heard, std::chrono::milliseconds timeout) {
  const timespec relative{.tv_sec = timeout.count() / 1000,
                          .tv_nsec = timeout.count() % 1000 * 1000000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&rings), FUTEX_WAIT, heard, &relative, nullptr, 0);
}

}  // namespace muster::inline v0_1::internal

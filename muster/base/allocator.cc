#include "muster/base/allocator.h"

#ifdef MUSTER_MIMALLOC_DELAY
#include <mimalloc.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>

#include "muster/base/memory_size.h"

// The program chooses the allocator, so it may be missing.
extern "C" __attribute__((weak)) void mi_option_set_default(mi_option_t option, long value);
extern "C" __attribute__((weak)) int mi_reserve_os_memory(size_t size, bool commit,
                                                          bool allow_large);
#endif

namespace muster::inline v0_1 {

#ifdef MUSTER_MIMALLOC_DELAY
namespace {

// Whether address space that is only reserved costs nothing.
bool addresses_are_free() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return false;
  constexpr char kNeverMoreThanThereIs = '2';
  std::ifstream policy("/proc/sys/vm/overcommit_memory");
  return policy.get() != kNeverMoreThanThereIs;
}

}  // namespace
#endif

void keep_freed_memory() {
#ifdef MUSTER_MIMALLOC_DELAY
  static const bool once = [] {
    constexpr long kMilliseconds = 10'000;
    if (mi_option_set_default != nullptr)
      mi_option_set_default(MUSTER_MIMALLOC_DELAY, kMilliseconds);
    if (mi_reserve_os_memory != nullptr && std::getenv("MIMALLOC_RESERVE_OS_MEMORY") == nullptr &&
        addresses_are_free())
      mi_reserve_os_memory(memory_size() / 2, /*commit=*/true, /*allow_large=*/false);
    return true;
  }();
  (void)once;
#endif
}

}  // namespace muster::inline v0_1

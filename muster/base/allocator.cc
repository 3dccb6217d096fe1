#include "muster/base/allocator.h"

#ifdef MUSTER_MIMALLOC_DELAY
#include <mimalloc.h>

#include <cstdlib>

#include "muster/base/memory_size.h"

// The allocator is the program's choice, so it may not be there.
extern "C" __attribute__((weak)) void mi_option_set_default(mi_option_t option, long value);
extern "C" __attribute__((weak)) int mi_reserve_os_memory(size_t size, bool commit,
                                                          bool allow_large);
#endif

namespace muster::inline v0_1 {

void keep_freed_memory() {
#ifdef MUSTER_MIMALLOC_DELAY
  static const bool once = [] {
    constexpr long kMilliseconds = 10'000;
    if (mi_option_set_default != nullptr)
      mi_option_set_default(MUSTER_MIMALLOC_DELAY, kMilliseconds);
    // Without room for it, an address limit say, memory comes from the system as it did before.
    if (mi_reserve_os_memory != nullptr && std::getenv("MIMALLOC_RESERVE_OS_MEMORY") == nullptr)
      mi_reserve_os_memory(memory_size() / 2, /*commit=*/true, /*allow_large=*/false);
    return true;
  }();
  (void)once;
#endif
}

}  // namespace muster::inline v0_1

#include "muster/base/allocator.h"

#ifdef MUSTER_MIMALLOC_DELAY
#include <mimalloc.h>

// The allocator is the program's choice, so it may not be there.
extern "C" __attribute__((weak)) void mi_option_set_default(mi_option_t option, long value);
#endif

namespace muster::inline v0_1 {

void keep_freed_memory() {
#ifdef MUSTER_MIMALLOC_DELAY
  constexpr long kMilliseconds = 10'000;
  if (mi_option_set_default != nullptr)
    mi_option_set_default(MUSTER_MIMALLOC_DELAY, kMilliseconds);
#endif
}

}  // namespace muster::inline v0_1

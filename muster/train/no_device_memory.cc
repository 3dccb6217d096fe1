#include "muster/train/internal/device_memory.h"

namespace muster::inline v0_1::internal {

DeviceMemory device_memory() { return {}; }

}  // namespace muster::inline v0_1::internal

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <exception>

#include "muster/train/internal/device_memory.h"

namespace muster::inline v0_1::internal {

MemoryOfDevices memory_of_gpus() {
  // The first of the numbers of an allocator is the sum over its pools.
  constexpr size_t kAllPools = 0;
  MemoryOfDevices sum;
  try {
    for (int device = 0; device < c10::cuda::device_count(); ++device) {
      const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device);
      sum.used += stats.allocated_bytes[kAllPools].current;
      sum.reserved += stats.reserved_bytes[kAllPools].current;
    }
  } catch (const std::exception&) {
    // The allocator of a process that has used no GPU does not know its devices.
  }
  return sum;
}

}  // namespace muster::inline v0_1::internal

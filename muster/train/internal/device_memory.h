// The memory of GPUs that this process uses. Thread safety: any thread.
#pragma once

#include <cstdint>

namespace muster::inline v0_1::internal {

struct DeviceMemory {
  int64_t used = 0;      // bytes of tensors
  int64_t reserved = 0;  // bytes that LibTorch's allocator holds
};

// Over all GPUs, as LibTorch's allocator counts it; 0 in a build without CUDA, and before the
// process has used a GPU.
DeviceMemory device_memory();

}  // namespace muster::inline v0_1::internal

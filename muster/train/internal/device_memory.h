// The memory of devices that this process uses. Thread safety: any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/tensor/device.h"

namespace muster::inline v0_1 {
class DeviceLibrary;
}  // namespace muster::inline v0_1

namespace muster::inline v0_1::internal {

struct MemoryOfDevices {
  int64_t used = 0;      // bytes of tensors
  int64_t reserved = 0;  // as LiveStatus::device_reserved
};

// Over all devices of this process that are of the kind of `device`; nothing for the CPU, and where
// the library of the devices does not know it.
std::optional<MemoryOfDevices> memory_of_devices(Device device);
// Over all devices of a library.
std::optional<MemoryOfDevices> memory_of_devices(DeviceLibrary& library);
// Over all GPUs, as LibTorch's allocator counts it; 0 in a build without CUDA, and before the
// process has used a GPU.
MemoryOfDevices memory_of_gpus();

}  // namespace muster::inline v0_1::internal

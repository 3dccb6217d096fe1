#include "muster/train/internal/device_memory.h"

#include <exception>

#include "muster/tensor/device_library.h"

namespace muster::inline v0_1::internal {

std::optional<MemoryOfDevices> memory_of_devices(DeviceLibrary& library) {
  MemoryOfDevices sum;
  try {
    for (int device = 0; device < library.count(); ++device) {
      const std::optional<DeviceMemory> one = library.memory(device);
      if (!one) return std::nullopt;
      sum.used += one->used;
      sum.reserved += one->limit;
    }
  } catch (const std::exception&) {
    // A view of the run is no reason to fail it.
    return std::nullopt;
  }
  return sum;
}

std::optional<MemoryOfDevices> memory_of_devices(Device device) {
  if (device.is_cuda()) return memory_of_gpus();
  DeviceLibrary* const library = device_library(device.type());
  return library == nullptr ? std::nullopt : memory_of_devices(*library);
}

}  // namespace muster::inline v0_1::internal

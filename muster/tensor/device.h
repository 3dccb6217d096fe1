// Where tensors are stored and computed: the CPU, or a device that LibTorch was built for (CUDA's
// GPUs). Thread safety: functions from any thread; the current device belongs to a thread.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// LibTorch's device has a kind and a number: "cuda:1".
using Device = at::Device;

// Whether `name` is the name of a device. The machine need not have it.
MUSTER_EXPORT bool names_device(const std::string& name);
// Parses "cpu" or "cuda:1". "cuda" is the first GPU, or, if a launcher started several processes on
// this machine (torchrun, srun, mpirun), the first GPU of this process's share. Throws
// InvalidArgument for a name that is not a device's, and for a device that this machine does not
// have; the error lists its devices.
MUSTER_EXPORT Device parse_device(const std::string& name);
// Parses a list in which "cuda" means every GPU, or this process's share. Also throws
// InvalidArgument for a device that is named twice.
MUSTER_EXPORT std::vector<Device> parse_devices(const std::vector<std::string>& names);

// While a DeviceScope exists, its device is the current one of this thread: tensors made on "cuda"
// are made there. For the CPU it does nothing.
class MUSTER_EXPORT DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device outer_;
};

}  // namespace muster::inline v0_1

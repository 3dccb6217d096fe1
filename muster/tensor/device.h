// Where tensors live and are computed: the CPU, or a device LibTorch was built for (CUDA's GPUs).
// Thread safety: functions from any thread; which device is current belongs to a thread.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// LibTorch's device has a kind and a number: "cuda:1".
using Device = at::Device;

// Tells whether `name` names a device. The machine need not have it.
MUSTER_EXPORT bool names_device(const std::string& name);
// Reads "cpu" or "cuda:1"; "cuda" is the first of its kind, or, where a launcher started several
// processes on this machine (torchrun, srun, mpirun), the first of this process's part. Throws
// InvalidArgument for a name that names no device, and for a device this machine does not have; the
// error lists those it has.
MUSTER_EXPORT Device parse_device(const std::string& name);
// Reads a list, in which "cuda" means every device of its kind, or of this process's part. Throws
// InvalidArgument also for a device that is named twice.
MUSTER_EXPORT std::vector<Device> parse_devices(const std::vector<std::string>& names);

// While a DeviceScope lives, its device is the current one of this thread: what is made on "cuda"
// is made there. For the CPU it does nothing.
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

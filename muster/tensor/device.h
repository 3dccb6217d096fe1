// Where tensors live and are computed: the CPU, or a device LibTorch was built for (CUDA's GPUs).
// Thread safety: functions from any thread; which device is current belongs to a thread.
#pragma once

#include <string>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// LibTorch's: a kind and a number, "cuda:1".
using Device = at::Device;

// Whether that is the name of a device, be it there or not.
bool names_device(const std::string& name);
// "cpu", "cuda:1"; "cuda" is the first of its kind. Throws InvalidArgument for a name that is none,
// and for a device that is not there, saying which are.
Device parse_device(const std::string& name);
// The same of a list, in which "cuda" is every device of its kind. Throws InvalidArgument also for
// one named twice.
std::vector<Device> parse_devices(const std::vector<std::string>& names);

// While one lives, its device is the current one of this thread: what is made on "cuda" is made
// there. Nothing for the CPU.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device outer_;
};

}  // namespace muster::inline v0_1

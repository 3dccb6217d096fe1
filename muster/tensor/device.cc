#include "muster/tensor/device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/tensor/device_library.h"

namespace muster::inline v0_1 {
namespace {

int count_of(at::DeviceType type) {
  if (type == at::kCPU) return 1;
  load_device_library(type);
  if (DeviceLibrary* const library = device_library(type)) return count_devices(*library);
  return c10::impl::hasDeviceGuardImpl(type) ? c10::impl::getDeviceGuardImpl(type)->deviceCount()
                                             : 0;
}

// The devices of a kind that are for this process: all of them, or an equal part where a launcher
// started several processes on this machine. Where there are fewer than processes, each has been
// given its own, or they share.
std::vector<Device> own_devices(at::DeviceType type) {
  const Environment environment = Environment::process();
  const int count = count_of(type);
  cluster::LocalPlace place = cluster::local_place(environment);
  // Slurm then shows each task its own alone.
  if (count < place.size || environment.has("SLURM_GPUS_PER_TASK")) place = {};
  const int each = count / place.size;
  std::vector<Device> devices;
  for (int i = place.rank * each; i < (place.rank + 1) * each; ++i)
    devices.emplace_back(type, static_cast<c10::DeviceIndex>(i));
  return devices;
}

// A kind that has its device without a number.
Device parse_kind(const std::string& name) {
  try {
    const Device device(name);
    // LibTorch keeps the number in a byte; and on "meta" nothing is computed.
    if (device.str() == name && device.type() != at::kMeta && (!device.is_cpu() || name == "cpu"))
      return device;
  } catch (const c10::Error&) {
  }
  throw invalid_argument(fmt::format("there is no device \"{}\"", name),
                         "use cpu, cuda (every GPU), cuda:0 (one of them) or xla:0 (docs/tpu.md)");
}

Error not_there(const std::string& name, at::DeviceType type) {
  const int count = count_of(type);
  const std::string kind = c10::DeviceTypeName(type, /*lower_case=*/true);
  if (count > 0) {
    return invalid_argument(
        fmt::format("the device \"{}\" does not exist: there {} {}:0{}", name,
                    count == 1 ? "is" : "are", kind,
                    count == 1 ? std::string() : fmt::format(" to {}:{}", kind, count - 1)),
        type == at::kCUDA
            ? "name one of these; CUDA_VISIBLE_DEVICES hides the others from a process"
            : "name one of these");
  }
  if (type == at::kXLA) {
    return invalid_argument(
        fmt::format("the device \"{}\" does not exist: torch_xla has no device here", name),
        "set PJRT_DEVICE to TPU or CPU: docs/tpu.md");
  }
  if (c10::impl::hasDeviceGuardImpl(type)) {
    return invalid_argument(
        fmt::format("the device \"{}\" does not exist: LibTorch sees no GPU here", name),
        "look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use \"cpu\"");
  }
  return invalid_argument(
      fmt::format("not supported: the device \"{}\"; this LibTorch was built without it", name),
      "use \"cpu\" (several replicas are mirrored({.replicas = n})), or build Muster with a "
      "LibTorch "
      "for CUDA: docs/strategies.md, \"GPUs\"");
}

void check_there(const std::string& name, Device device) {
  if (device.index() >= count_of(device.type())) throw not_there(name, device.type());
}

}  // namespace

bool names_device(const std::string& name) {
  try {
    (void)parse_kind(name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

Device parse_device(const std::string& name) {
  Device device = parse_kind(name);
  if (device.is_cpu()) return at::kCPU;
  if (!device.has_index()) {
    const std::vector<Device> own = own_devices(device.type());
    device.set_index(own.empty() ? 0 : own.front().index());
  }
  check_there(name, device);
  return device;
}

std::vector<Device> parse_devices(const std::vector<std::string>& names) {
  std::vector<Device> devices;
  for (const std::string& name : names) {
    const Device device = parse_kind(name);
    if (device.is_cpu() || device.has_index()) {
      devices.push_back(parse_device(name));
    } else {
      const std::vector<Device> own = own_devices(device.type());
      if (own.empty()) throw not_there(name, device.type());
      devices.insert(devices.end(), own.begin(), own.end());
    }
  }
  // A backward waits for the others of its step on the one thread LibTorch has for a device.
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].is_cpu() || std::count(devices.begin(), devices.end(), devices[i]) == 1)
      continue;
    throw invalid_argument(
        fmt::format("the devices {} name {} twice", join_quoted(names), devices[i].str()),
        "give each replica a different device");
  }
  return devices;
}

DeviceScope::DeviceScope(Device device) : outer_(at::kCPU) {
  if (!device.is_cpu())
    outer_ = c10::impl::getDeviceGuardImpl(device.type())->exchangeDevice(device);
}

DeviceScope::~DeviceScope() {
  if (!outer_.is_cpu()) c10::impl::getDeviceGuardImpl(outer_.type())->uncheckedSetDevice(outer_);
}

}  // namespace muster::inline v0_1

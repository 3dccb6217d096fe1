#include "muster/distribute/internal/mirrored_devices.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute::internal {

std::vector<Device> gpus_of_this_process() {
  try {
    return parse_devices({"cuda"});
  } catch (const Error&) {  // there is none, or LibTorch was built without
    return {};
  }
}

std::vector<Device> mirrored_devices(const std::vector<std::string>& names,
                                     std::optional<int> replicas,
                                     const std::function<std::vector<Device>()>& gpus) {
  if (!names.empty() || replicas) return replica_devices(names, replicas.value_or(1));
  std::vector<Device> devices = gpus();
  if (devices.empty()) devices.emplace_back(at::kCPU);
  return devices;
}

std::string describe_mirrored(const std::vector<Device>& devices) {
  const std::string count =
      fmt::format("mirrored: {} replica{} on ", devices.size(), devices.size() == 1 ? "" : "s");
  if (devices.front().is_cpu()) {
    return count +
           (devices.size() > 1 ? "the CPU" : "the CPU; for several, mirrored({.replicas = n})");
  }
  std::vector<std::string> names;
  for (const Device& device : devices) names.push_back(device.str());
  return count + join(names, ", ");
}

}  // namespace muster::inline v0_1::distribute::internal

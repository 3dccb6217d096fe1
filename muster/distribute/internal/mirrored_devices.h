// On which devices mirrored() trains. Thread safety: pure functions, except for
// gpus_of_this_process().
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/tensor/device.h"

namespace muster::inline v0_1::distribute::internal {

// The GPUs that are for this process; none where there are none.
std::vector<Device> gpus_of_this_process();

// One device for each replica: those that are named, else the CPU for each of `replicas`, else what
// `gpus()` gives, as tf.distribute's MirroredStrategy, else the CPU once. Throws what
// replica_devices() throws.
std::vector<Device> mirrored_devices(const std::vector<std::string>& names,
                                     std::optional<int> replicas,
                                     const std::function<std::vector<Device>()>& gpus);

// "mirrored: 2 replicas on cuda:0, cuda:1", for the log.
std::string describe_mirrored(const std::vector<Device>& devices);

}  // namespace muster::inline v0_1::distribute::internal

// The devices on which mirrored() trains. Thread safety: pure functions, except for
// gpus_of_this_process().
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/tensor/device.h"

namespace muster::inline v0_1::distribute::internal {

// The GPUs of this process; empty if there are none.
std::vector<Device> gpus_of_this_process();

// One device for each replica: the named ones, else the CPU for each of `replicas`, else the result
// of `gpus()`, as in tf.distribute's MirroredStrategy, else the CPU once. Throws the errors of
// replica_devices().
std::vector<Device> mirrored_devices(const std::vector<std::string>& names,
                                     std::optional<int> replicas,
                                     const std::function<std::vector<Device>()>& gpus);

// "mirrored: 2 replicas on cuda:0, cuda:1", for the log.
std::string describe_mirrored(const std::vector<Device>& devices);

}  // namespace muster::inline v0_1::distribute::internal

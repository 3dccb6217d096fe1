#include <fmt/format.h>

#include <chrono>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/collectives/device_communicator.h"
#include "muster/collectives/thread_communicator.h"
#include "muster/distribute/internal/check_one_process.h"
#include "muster/distribute/internal/check_options.h"
#include "muster/distribute/internal/connect_replicas.h"
#include "muster/distribute/internal/make_replica.h"
#include "muster/distribute/internal/mirrored_devices.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {
namespace {

class Mirrored : public Strategy {
 public:
  explicit Mirrored(const MirroredOptions& options)
      : options_(options),
        devices_(internal::mirrored_devices(options.devices, options.replicas,
                                            internal::gpus_of_this_process)) {
    internal::check_options({.local_replicas = options.replicas.value_or(1),
                             .bytes_per_pack = options.bytes_per_pack,
                             .wire_dtype = options.wire_dtype,
                             .timeout = options.timeout,
                             .progress_timeout = options.progress_timeout,
                             .save_timeout = options.save_timeout},
                            "MirroredOptions", "replicas");
  }

  std::string_view name() const override { return "Mirrored"; }
  Device device() const override { return devices_[0]; }
  bool multi_worker() const override { return false; }

  std::vector<std::unique_ptr<Replica>> start_replicas(const StartOptions& start) const override {
    internal::check_one_process(start.cluster, name());
    const auto count = static_cast<int>(devices_.size());
    // For several GPUs the log also names the library that carries their gradients.
    if (count == 1 || devices_[0].is_cpu()) {
      log::info_once(internal::describe_mirrored(devices_));
    }
    if (count == 1) return one_device(devices_[0].str())->start_replicas(start);
    const auto group = std::make_shared<LocalGroup>(
        count, LocalGroup::Patience{.progress = options_.progress_timeout.count(),
                                    .save = options_.save_timeout.count()});
    auto communicators = connect();
    std::vector<std::unique_ptr<Replica>> replicas;
    for (int r = 0; r < count; ++r) {
      const Device device = devices_[static_cast<size_t>(r)];
      replicas.push_back(internal::make_replica(
          {.local = r, .locals = count, .device = device},
          fmt::format("Mirrored: replica {} of {} in this process{}", r, count,
                      device.is_cpu() ? "" : ", on " + device.str()),
          start.seed, std::move(communicators[static_cast<size_t>(r)]), group, nullptr,
          {.bytes_per_pack = options_.bytes_per_pack, .wire_dtype = options_.wire_dtype}));
    }
    return replicas;
  }

 private:
  std::vector<std::unique_ptr<Communicator>> connect() const {
    const auto replicas = static_cast<int>(devices_.size());
    auto communicators = make_thread_communicators({.size = replicas, .timeout = timeout()});
    if (devices_[0].is_cpu()) return communicators;
    return connect_replicas(replicas, [&](int replica) {
      const auto r = static_cast<size_t>(replica);
      std::string how;
      auto made = make_device_communicator(std::move(communicators[r]),
                                           {.device = devices_[r], .timeout = timeout()}, &how);
      if (replica == 0) {
        log::info(internal::describe_mirrored(devices_) + how);
      }
      return made;
    });
  }

  std::chrono::milliseconds timeout() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(from_seconds(options_.timeout));
  }

  MirroredOptions options_;
  std::vector<Device> devices_;  // by replica
};

}  // namespace

StrategyPtr mirrored(const MirroredOptions& options) { return std::make_shared<Mirrored>(options); }

}  // namespace muster::inline v0_1::distribute

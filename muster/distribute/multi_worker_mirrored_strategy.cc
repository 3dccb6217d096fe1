#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/distribute/internal/check_one_process.h"
#include "muster/distribute/internal/check_options.h"
#include "muster/distribute/internal/start_multi_worker.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {
namespace {

class MultiWorkerMirrored : public Strategy {
 public:
  explicit MultiWorkerMirrored(const CommunicationOptions& options)
      : options_(options), devices_(replica_devices(options.devices, options.local_replicas)) {
    internal::check_options(options, "CommunicationOptions", "local_replicas");
  }

  std::string_view name() const override { return "MultiWorkerMirrored"; }
  Device device() const override { return devices_[0]; }
  bool multi_worker() const override { return true; }

  std::vector<std::unique_ptr<Replica>> start_replicas(const StartOptions& options) const override {
    internal::check_no_servers(options.cluster, name());
    if (!options.cluster.distributed()) {
      return mirrored({.replicas = options_.local_replicas,
                       .devices = options_.devices,
                       .bytes_per_pack =
                           options_.bytes_per_pack.value_or(MirroredOptions().bytes_per_pack),
                       .wire_dtype = options_.wire_dtype,
                       .timeout = options_.timeout,
                       .progress_timeout = options_.progress_timeout,
                       .save_timeout = options_.save_timeout})
          ->start_replicas(options);
    }
    return start_multi_worker(options, options_, devices_);
  }

 private:
  CommunicationOptions options_;
  std::vector<Device> devices_;  // by replica of this process
};

}  // namespace

StrategyPtr multi_worker_mirrored(const CommunicationOptions& options) {
  return std::make_shared<MultiWorkerMirrored>(options);
}

}  // namespace muster::inline v0_1::distribute

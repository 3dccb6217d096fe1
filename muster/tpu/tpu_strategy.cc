#include "muster/tpu/tpu_strategy.h"

#include <fmt/format.h>

#include "muster/base/log.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/tensor/device_library.h"

namespace muster::inline v0_1::distribute {
namespace {

class Tpu : public Strategy {
 public:
  explicit Tpu(int workers)
      : chips_(join_devices(at::kXLA)),
        replicas_(workers > 1 ? multi_worker_mirrored({.devices = {"xla:0"}})
                              : one_device("xla:0")) {}

  std::string_view name() const override { return "TPU"; }
  Device device() const override { return replicas_->device(); }
  bool multi_worker() const override { return replicas_->multi_worker(); }

  std::vector<std::unique_ptr<Replica>> start_replicas(const StartOptions& options) const override {
    log::info_once(fmt::format("TPU: {} chip{} of this process compute{} as one replica", chips_,
                               chips_ == 1 ? "" : "s", chips_ == 1 ? "s" : ""));
    return replicas_->start_replicas(options);
  }

 private:
  int chips_;
  StrategyPtr replicas_;
};

}  // namespace

StrategyPtr tpu(const cluster::TpuResolver& resolver) {
  return std::make_shared<Tpu>(resolver.num_workers());
}

}  // namespace muster::inline v0_1::distribute

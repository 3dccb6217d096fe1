#include "muster/distribute/internal/check_one_process.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {
namespace {

class OneDevice : public Strategy {
 public:
  explicit OneDevice(Device device) : device_(device) {}

  Device device() const override { return device_; }
  std::string_view name() const override { return "OneDevice"; }
  bool multi_worker() const override { return false; }
  std::vector<std::unique_ptr<Replica>> start_replicas(const StartOptions& options) const override {
    internal::check_one_process(options.cluster, name());
    ReplicaParts parts{.place = {.device = device_},
                       .title = "OneDevice: one replica in this process" +
                                (device_.is_cpu() ? std::string() : ", on " + device_.str()),
                       .seed = options.seed,
                       .group = make_lone_group(),
                       .exchange = make_lone_exchange(),
                       .updater = make_in_place_updater()};
    std::vector<std::unique_ptr<Replica>> replicas;
    replicas.push_back(std::make_unique<Replica>(std::move(parts)));
    return replicas;
  }

 private:
  Device device_;
};

}  // namespace

StrategyPtr one_device(const std::string& device) {
  return std::make_shared<OneDevice>(parse_device(device));
}

}  // namespace muster::inline v0_1::distribute

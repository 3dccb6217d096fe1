#include "muster/distribute/strategy.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/distribute/internal/start_multi_worker.h"

namespace muster::inline v0_1::distribute {
namespace {

void check_positive(double value, const char* name) {
  if (!(value > 0)) {
    throw invalid_argument(
        fmt::format("CommunicationOptions.{} is {}; it must be more than 0", name, value));
  }
}

class MultiWorkerMirrored : public Strategy {
 public:
  explicit MultiWorkerMirrored(const CommunicationOptions& options) : options_(options) {
    if (options.bytes_per_pack < 0) {
      throw invalid_argument(
          fmt::format("CommunicationOptions.bytes_per_pack is {}", options.bytes_per_pack),
          "use 0 for one bucket, or a size in bytes");
    }
    check_positive(options.timeout_seconds, "timeout_seconds");
    check_positive(options.heartbeat_seconds, "heartbeat_seconds");
    check_positive(options.progress_timeout_seconds, "progress_timeout_seconds");
    if (options.heartbeat_timeout_seconds < 2 * options.heartbeat_seconds) {
      throw invalid_argument(
          fmt::format("CommunicationOptions.heartbeat_timeout_seconds is {}, heartbeat_seconds {}",
                      options.heartbeat_timeout_seconds, options.heartbeat_seconds),
          "allow for at least two missed heartbeats");
    }
  }

  std::string_view name() const override { return "MultiWorkerMirrored"; }
  bool multi_worker() const override { return true; }

  std::unique_ptr<Session> start(const StartOptions& options) const override {
    if (options.cluster.num_ps > 0) {
      throw invalid_argument(
          "TF_CONFIG lists parameter servers, which MultiWorkerMirrored does not use",
          "remove \"ps\" from \"cluster\" in TF_CONFIG of every task");
    }
    if (!options.cluster.distributed()) return one_device()->start(options);
    return start_multi_worker(options, options_);
  }

 private:
  CommunicationOptions options_;
};

}  // namespace

StrategyPtr multi_worker_mirrored(const CommunicationOptions& options) {
  return std::make_shared<MultiWorkerMirrored>(options);
}

}  // namespace muster::inline v0_1::distribute

#include "muster/calls/internal/run_watch.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {
namespace {

constexpr double kServersEvery = 1;  // seconds between looks at them

}  // namespace

void RunWatch::look() {
  replica_.replica().group().check_failure();
  if (const auto lonely = host_.without_workers()) {
    const double patience = lonely->came ? restart_timeout_ : join_timeout_;
    if (lonely->seconds > patience) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("no worker has been available for calls for {:.0f} s; {} {}",
                              lonely->seconds, host_.unfinished(), "have not ended"),
                  "start the workers of TF_CONFIG; CoordinatorOptions::join_timeout is how long "
                  "the first is waited for, ParameterServerOptions::restart_timeout how "
                  "long others");
    }
  }
  const TimePoint now = system_clock().now();
  if (looked_ && to_seconds(now - *looked_) < kServersEvery) return;
  looked_ = now;
  try {
    replica_.engine().follow(replica_.run().check());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kPeerLost) throw;
    throw Error(ErrorKind::kPeerLost, error.message(),
                "start the server and this program again: it continues from the last checkpoint");
  }
}

void RunWatch::cancel(const std::string& why) {
  host_.cancel(Error(ErrorKind::kCancelled, why, "schedule it again in the next run"));
  const TimePoint deadline = system_clock().now() + from_seconds(kRunningSeconds);
  uint64_t seen = host_.wait_for_change(0, 0);
  while (host_.unfinished() > 0 && system_clock().now() < deadline) {
    replica_.replica().group().check_failure();
    seen = host_.wait_for_change(seen, kLookSeconds);
  }
}

}  // namespace muster::inline v0_1::distribute

#include "muster/checkpoint/store_claim.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <thread>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster::inline v0_1 {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr const char* kName = "writer";

std::string this_process() {
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {}", getpid(), host);
}

Error in_use(const std::string& directory, const std::string& who) {
  // To start this program again would only wait once more: the user who started two must decide.
  return invalid_argument(fmt::format("model_dir '{}' is in use by {}", directory, who),
                          "wait for it to end, or give this run a model_dir of its own");
}

// Returns when no process holds the right.
void wait_for_others(const std::string& directory, FileSystem& fs,
                     const std::function<bool()>& cancelled, const StoreClaimOptions& options) {
  LeaseWatch watch(directory, kName, fs, system_clock());
  const SteadyClock::time_point begun = SteadyClock::now();
  std::optional<LeaseContent> first;
  for (std::optional<LeaseContent> there; (there = watch.look());) {
    if (cancelled && cancelled()) {
      throw Error(ErrorKind::kCancelled,
                  fmt::format("waiting for {} to leave model_dir '{}'", there->holder, directory));
    }
    const auto waited = SteadyClock::now() - begun;
    if (!first) {
      first = there;
      log::info(fmt::format("waiting for {} to leave {}", there->holder, directory));
    }
    const bool lives = watch.changes() > 1;
    if (waited >=
        (lives ? options.join_timeout : options.join_timeout + LeaseWatch::kHeartbeatTimeout))
      throw in_use(directory, there->holder);
    std::this_thread::sleep_for(options.look_every);
  }
  // The holder of the right keeps it while the store cannot be read.
  if (watch.trouble()) throw *watch.trouble();
}

}  // namespace

StoreClaim::StoreClaim(const std::string& directory, FileSystem& fs,
                       const std::function<bool()>& cancelled, StoreClaimOptions options)
    : directory_(directory) {
  wait_for_others(directory, fs, cancelled, options);
  options.lease.fs = &fs;
  lease_ = std::make_unique<Lease>(directory, kName, LeaseContent{.holder = this_process()},
                                   std::move(options.lease));
  // Another may have begun at the same moment.
  lease_->change([](LeaseContent&) {});
  check();
}

void StoreClaim::check() const {
  if (!lease_->look_whether_lost()) return;
  throw Error(
      ErrorKind::kUnavailable,
      fmt::format("model_dir '{}' was taken by another program while it was in use", directory_),
      "another program writes there now: give each run a model_dir of its own");
}

}  // namespace muster::inline v0_1

#include "muster/distribute/start_failure.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "muster/base/environment.h"
#include "muster/base/log.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/control/coordinator_options.h"
#include "muster/control/coordinator_server.h"
#include "muster/net/socket_channel.h"
#include "muster/plan/failure.h"

namespace muster::inline v0_1::distribute {
namespace {

using std::chrono::steady_clock;

// Tasks that are started together do not begin at the same moment.
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kPause = std::chrono::milliseconds(200);
constexpr double kAnswerTimeout = 2;
// A shorter wait is not reported: lines hide the error above them.
constexpr auto kQuiet = std::chrono::seconds(1);

std::atomic<bool> joining = false;

// The time in which others may ask or be asked; Ctrl-C and SIGTERM end it.
class Patience {
 public:
  // `doing` names the purpose, if it is not over at once.
  Patience(const std::function<bool()>& cancelled, std::string doing)
      : cancelled_(cancelled), doing_(std::move(doing)) {}
  // Waits a moment; false when the time is over.
  bool pause() {
    if (cancelled_() || steady_clock::now() >= begin_ + kPatience) return false;
    if (!doing_.empty() && steady_clock::now() >= begin_ + kQuiet)
      log::info(
          fmt::format("{}, for {} s", std::exchange(doing_, {}), (kPatience - kQuiet).count()));
    std::this_thread::sleep_for(kPause);
    return true;
  }

 private:
  const std::function<bool()>& cancelled_;
  std::string doing_;
  const steady_clock::time_point begin_ = steady_clock::now();
};

bool tell_coordinator(const cluster::ResolvedCluster& cluster, const net::FailRequest& request) {
  net::SocketChannel channel(cluster.coordinator_address, cluster.job, cluster.task.name());
  const Result<net::Reply> reply = channel.fail(request, kAnswerTimeout);
  return reply.ok() || reply.error().kind() == ErrorKind::kInvalidArgument;
}

void tell(const cluster::ResolvedCluster& cluster, const Error& error,
          const std::function<bool()>& cancelled) {
  const net::FailRequest request{.who = {cluster.task.name(), std::random_device{}()},
                                 .kind = error.kind(),
                                 .reason = "it could not start: " + error.message(),
                                 .rank = cluster.rank,
                                 .world_size = static_cast<int>(cluster.workers.size()),
                                 .addresses = cluster.addresses};
  if (cluster.is_chief) {
    const control::CoordinatorServer server(control::server_options(cluster));
    tell_coordinator(cluster, request);
    Patience patience(cancelled, "telling the other tasks why");
    while (!server.all_know_of_start_failure() && patience.pause()) {
    }
    // The last answer may still be on its way.
    patience.pause();
    return;
  }
  Patience patience(cancelled, fmt::format("{} does not answer yet; trying to tell it why",
                                           plan::readable_task(cluster.workers[0].name())));
  while (!tell_coordinator(cluster, request) && patience.pause()) {
  }
}

}  // namespace

void note_joining() noexcept { joining = true; }

void report_start_failure(const Error& error, const std::function<bool()>& cancelled) noexcept {
  if (joining) return;
  try {
    const cluster::ResolvedCluster cluster =
        cluster::resolve_cluster(Environment::process(), {.worker_zero_may_be_chief = true});
    if (cluster.rank >= 0 && cluster.distributed()) tell(cluster, error, cancelled);
  } catch (const std::exception& why_not) {
    // Without a correct cluster there is no task to notify.
    log::debug(std::string("the other tasks were not told: ") + why_not.what());
  }
}

}  // namespace muster::inline v0_1::distribute

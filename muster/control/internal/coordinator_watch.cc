#include "muster/control/internal/coordinator_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::inline v0_1::control {

namespace {

// Threads of a process that runs wait less for their turn, in seconds.
constexpr double kHeldUp = 0.5;

}  // namespace

CoordinatorWatch::CoordinatorWatch(const JoinOptions& options, double now)
    : options_(options),
      rules_{.heartbeat_timeout = options.heartbeat_timeout,
             .reconnect_timeout = options.reconnect_timeout},
      answer_time_(std::max(options.heartbeat_timeout / 3, 0.1)),
      pulse_{.heard = now},
      last_end_(now) {}

double CoordinatorWatch::begin_beat(double now) {
  forgive_lateness(last_end_ + pause(), now);
  // The last beat before the time-out must not outlast it.
  const double left = options_.heartbeat_timeout - (now - pulse_.heard) + kRetrySeconds / 2;
  const double limit = std::clamp(left, kRetrySeconds, answer_time_);
  answer_due_ = now + limit;
  return limit;
}

void CoordinatorWatch::forgive_lateness(double due, double now) {
  const double late = now - due;
  if (late >= kHeldUp) pulse_.forgive(late, now);
}

void CoordinatorWatch::answered(double now) {
  last_end_ = now;
  pulse_ = {.heard = now};
  missed_ = false;
}

void CoordinatorWatch::unanswered(bool unreachable, double now) {
  forgive_lateness(answer_due_, now);
  last_end_ = now;
  missed_ = true;
  if (unreachable && !pulse_.disconnected_since) pulse_.disconnected_since = now;
}

std::optional<std::string> CoordinatorWatch::why_lost(double now) const {
  const auto why = pulse_.why_lost(rules_, now);
  if (!why) return std::nullopt;
  return fmt::format("the coordinator at {} is lost: {}", options_.address, *why);
}

}  // namespace muster::inline v0_1::control

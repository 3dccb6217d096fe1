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
      answer_time_(std::max(options.heartbeat_timeout / 3, 0.1)),
      last_answer_(now),
      last_end_(now) {}

double CoordinatorWatch::begin_beat(double now) {
  forgive_lateness(last_end_ + pause(), now);
  // The last beat before the time-out must not outlast it.
  const double left = options_.heartbeat_timeout - (now - last_answer_) + kRetrySeconds / 2;
  const double limit = std::clamp(left, kRetrySeconds, answer_time_);
  answer_due_ = now + limit;
  return limit;
}

void CoordinatorWatch::forgive_lateness(double due, double now) {
  const double late = now - due;
  if (late < kHeldUp) return;
  last_answer_ = std::min(now, last_answer_ + late);
  if (unreachable_since_) unreachable_since_ = std::min(now, *unreachable_since_ + late);
}

void CoordinatorWatch::answered(double now) {
  last_answer_ = last_end_ = now;
  unreachable_since_.reset();
  missed_ = false;
}

void CoordinatorWatch::unanswered(bool unreachable, double now) {
  forgive_lateness(answer_due_, now);
  last_end_ = now;
  missed_ = true;
  if (unreachable && !unreachable_since_) unreachable_since_ = now;
}

std::optional<std::string> CoordinatorWatch::why_lost(double now) const {
  if (now - last_answer_ > options_.heartbeat_timeout) {
    return fmt::format("the coordinator at {} did not answer for {:.1f} s", options_.address,
                       now - last_answer_);
  }
  if (unreachable_since_ && now - *unreachable_since_ > options_.reconnect_grace) {
    return fmt::format(
        "the coordinator at {} closed its connections and did not come back within {:.1f} s",
        options_.address, options_.reconnect_grace);
  }
  return std::nullopt;
}

}  // namespace muster::inline v0_1::control

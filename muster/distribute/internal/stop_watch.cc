#include "muster/distribute/internal/stop_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace muster::inline v0_1::distribute {

using std::chrono::steady_clock;

namespace {

constexpr auto kLook = std::chrono::milliseconds(250);

}  // namespace

StopWatch::StopWatch(std::function<bool()> asked, double grace_seconds,
                     std::function<void(const Error&)> give_up)
    : asked_(std::move(asked)),
      grace_(grace_seconds),
      give_up_(std::move(give_up)),
      last_progress_(steady_clock::now()),
      thread_([this] { watch(); }) {}

StopWatch::~StopWatch() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    closed_.notify_all();
  }
  thread_.join();
}

void StopWatch::note_progress(plan::Phase phase) {
  const std::lock_guard lock(mutex_);
  last_progress_ = steady_clock::now();
  saving_ = phase == plan::Phase::kSaving;
}

void StopWatch::watch() {
  std::optional<steady_clock::time_point> since;  // it was asked
  std::unique_lock lock(mutex_);
  while (!closed_.wait_for(lock, kLook, [this] { return closing_; })) {
    if (!asked_()) continue;
    if (!since) since = steady_clock::now();
    if (saving_ || steady_clock::now() - std::max(*since, last_progress_) < grace_) continue;
    lock.unlock();
    give_up_(Error(ErrorKind::kCancelled,
                   fmt::format("stopped: its step did not end within {:.0f} s after the request to "
                               "stop; the last checkpoint is an earlier one",
                               grace_.count())));
    return;
  }
}

}  // namespace muster::inline v0_1::distribute

#include "muster/summary/internal/event_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/summary/internal/event_file.h"

namespace muster::inline v0_1::summary::internal {

EventParts::EventParts(std::string directory, FileSystem& files, Clock& clock,
                       EventPartsOptions options)
    : directory_(std::move(directory)),
      files_(files),
      clock_(clock),
      options_(std::move(options)),
      joined_(files, clock, options_.join) {}

EventParts::~EventParts() { close(); }

void EventParts::add(const std::string& records, int64_t events) {
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  if (waiting_.size() + sending_.size() + records.size() > options_.most_bytes) {
    if (lost_ == 0) {
      log::warning(
          fmt::format("more than {} MiB of summaries wait for '{}': those from now on are "
                      "lost until some could be sent",
                      options_.most_bytes >> 20, directory_));
    }
    lost_ += events;
    return;
  }
  waiting_ += records;
  waiting_events_ += events;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

std::string EventParts::path() const {
  const std::lock_guard lock(mutex_);
  return path_;
}

std::string EventParts::next_name() {
  // A clock that was set back must not lead to a name that sorts before the existing ones.
  newest_second_ = std::max(newest_second_, static_cast<int64_t>(clock_.wall_seconds()));
  return event_file_name(newest_second_, fmt::format("{:08}", next_event_file()), options_.suffix);
}

bool EventParts::send(std::unique_lock<std::mutex>& lock) {
  // A part that failed is sent again under its name: it may exist already, and must not be written
  // twice.
  if (sending_path_.empty()) {
    sending_ = event_file_header(clock_.wall_seconds()) + std::exchange(waiting_, {});
    sending_events_ = std::exchange(waiting_events_, 0);
    sending_path_ = join_path(directory_, next_name());
  }
  lock.unlock();
  const Status sent = files_.write_atomically(sending_path_, sending_);
  lock.lock();
  if (!sent.ok()) {
    log::warning_once(
        fmt::format("summaries for '{}' cannot be written now, and are tried again: {}", directory_,
                    sent.error().message()));
    return false;
  }
  joined_.add(sending_path_);
  path_ = std::exchange(sending_path_, {});
  sending_.clear();
  sending_events_ = 0;
  return true;
}

void EventParts::run() {
  std::unique_lock lock(mutex_);
  double delay = options_.first_delay_seconds;
  while (!give_up_) {
    if (sending_path_.empty() && waiting_.empty()) {
      if (ending_) break;
      changed_.wait(lock);
      continue;
    }
    const bool sent = send(lock);
    changed_.notify_all();
    if (sent) {
      delay = options_.first_delay_seconds;
      lock.unlock();
      joined_.join([this] {
        const std::lock_guard locked(mutex_);
        return ending_;
      });
      lock.lock();
      continue;
    }
    // When it ends, little time is left to try in.
    const double pause = ending_ ? std::min(delay, options_.first_delay_seconds) : delay;
    const bool was_ending = ending_;
    changed_.wait_for(lock, from_seconds(pause), [&] { return give_up_ || ending_ != was_ending; });
    delay = std::min(delay * 2, options_.longest_delay_seconds);
  }
}

void EventParts::close() {
  {
    std::unique_lock lock(mutex_);
    if (ending_) return;
    ending_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, from_seconds(options_.end_seconds),
                      [&] { return sending_path_.empty() && waiting_.empty(); });
    give_up_ = true;
  }
  changed_.notify_all();
  // The store bounds the requests under way.
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  lost_ += sending_events_ + waiting_events_;
  if (lost_ > 0) {
    log::warning(fmt::format("{} summary events for '{}' were lost: they could not be written",
                             lost_, directory_));
  }
}

}  // namespace muster::inline v0_1::summary::internal

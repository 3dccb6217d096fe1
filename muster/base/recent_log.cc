#include "muster/base/recent_log.h"

#include <deque>
#include <mutex>

namespace muster::inline v0_1::log {
namespace {

// It outlives all threads.
struct RecentLog {
  std::mutex mutex;
  std::deque<RecentLine> lines;
};

RecentLog& recent_log() {
  static auto* const one = new RecentLog;
  return *one;
}

}  // namespace

void internal::note_line(Level level, std::string_view text) {
  RecentLine line{std::chrono::system_clock::now(), level,
                  std::string(text.substr(0, kRecentBytes))};
  const std::lock_guard lock(recent_log().mutex);
  recent_log().lines.push_back(std::move(line));
  if (recent_log().lines.size() > kRecentLines) recent_log().lines.pop_front();
}

std::vector<RecentLine> recent_lines() {
  const std::lock_guard lock(recent_log().mutex);
  return {recent_log().lines.begin(), recent_log().lines.end()};
}

}  // namespace muster::inline v0_1::log

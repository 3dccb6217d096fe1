// The last lines of this process's log, for people who look at the run from outside.
// Thread safety: any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/log_sink.h"

namespace muster::inline v0_1::log {

// How many lines are kept, and how many bytes of each.
inline constexpr size_t kRecentLines = 100, kRecentBytes = 500;

// A line that was logged, at a level that MUSTER_LOG_LEVEL lets through.
struct RecentLine {
  std::chrono::system_clock::time_point time{};
  Level level = Level::kInfo;
  std::string text{};
};

// The last lines, the oldest first; also where a sink takes them.
std::vector<RecentLine> recent_lines();

namespace internal {
// The log calls it for each line.
void note_line(Level level, std::string_view text);
}  // namespace internal

}  // namespace muster::inline v0_1::log

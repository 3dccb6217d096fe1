// A run as its tasks reported it last: which tasks work, which are silent, and for which task the
// others wait. Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"
#include "muster/plan/straggler.h"
#include "muster/summary/live_status.h"

namespace muster::inline v0_1::summary {

// The condition of a task. A task is silent when its file is older than three of its writes and
// two seconds: it is stopped or dead, or its disk or its clock is.
enum class LiveState { kRunning, kSilent, kEnded, kStopped, kFailed };
MUSTER_PART_EXPORT std::string_view to_string(LiveState state);

// Whether a task whose file is so many seconds old is silent, if it has not ended.
bool is_silent(const LiveStatus& status, double age);

// One replica of a task.
struct LiveReplica {
  size_t task = 0;          // its place in LiveRun::tasks
  plan::ActivityNow now{};  // `seconds` up to the look
  // Steps a second over its last steps, and batches a second of a task that evaluates; 0: unknown.
  double rate = 0;
  plan::StepSeconds mean{};  // seconds a step over these, by activity
};

struct LiveRun {
  struct Task {
    LiveStatus status{};
    LiveState state = LiveState::kRunning;
    double age = 0;  // seconds since it wrote its file
  };
  std::vector<Task> tasks{};
  std::vector<LiveReplica> replicas{};         // of all tasks; those that train are first
  int64_t missing = 0;                         // tasks that train and have no file
  std::optional<plan::Straggler> straggler{};  // `task` is its place in `replicas`
  std::string straggler_text{};                // "" without one
};

// `now` is Unix time. While a task is silent or has ended, none of its replicas is the straggler.
MUSTER_PART_EXPORT LiveRun live_run(std::vector<LiveStatus> statuses, double now);

}  // namespace muster::inline v0_1::summary

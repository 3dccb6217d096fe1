#include "muster/summary/live_run.h"

#include <algorithm>
#include <utility>

namespace muster::inline v0_1::summary {
namespace {

LiveState state_of(const LiveStatus& status, double age) {
  if (status.end == "ended") return LiveState::kEnded;
  if (status.end == "stopped") return LiveState::kStopped;
  if (!status.end.empty()) return LiveState::kFailed;
  return is_silent(status, age) ? LiveState::kSilent : LiveState::kRunning;
}

LiveReplica replica_of(size_t task, plan::ActivityNow now, double age, bool in_step) {
  LiveReplica replica{.task = task, .now = std::move(now)};
  replica.now.seconds += age;
  const auto& steps = replica.now.last;
  double seconds = 0;
  for (const plan::StepSeconds& step : steps) {
    seconds += step.total();
    for (size_t a = 0; a < plan::kActivities; ++a) {
      replica.mean.seconds[a] += step.seconds[a] / static_cast<float>(steps.size());
    }
  }
  if (seconds <= 0) return replica;
  replica.rate = static_cast<double>(steps.size()) / seconds;
  // Boosted trees make several steps at once.
  const auto made = static_cast<double>(steps.back().step - steps.front().step);
  const double in = seconds - steps.front().total();
  if (in_step && made > static_cast<double>(steps.size()) && in > 0) replica.rate = made / in;
  return replica;
}

}  // namespace

std::string_view to_string(LiveState state) {
  switch (state) {
    case LiveState::kRunning:
      return "running";
    case LiveState::kSilent:
      return "silent";
    case LiveState::kEnded:
      return "ended";
    case LiveState::kStopped:
      return "stopped";
    case LiveState::kFailed:
      return "failed";
  }
  return "unknown";
}

bool is_silent(const LiveStatus& status, double age) {
  constexpr double kWrites = 3, kSeconds = 2;
  return age > kWrites * status.every + kSeconds;
}

LiveRun live_run(std::vector<LiveStatus> statuses, double now) {
  LiveRun run;
  bool at_own_pace = false;
  int64_t train = 0, processes = 0;
  std::vector<plan::TaskSteps> steps;
  std::vector<size_t> of_replica;
  for (LiveStatus& status : statuses) {
    LiveRun::Task task{.status = std::move(status)};
    task.age = std::max(0.0, now - task.status.written);
    task.state = state_of(task.status, task.age);
    at_own_pace |= task.status.trains() && task.status.at_own_pace;
    const bool runs = task.state == LiveState::kRunning;
    for (const plan::ActivityNow& replica : task.status.replicas) {
      const bool in_step = task.status.trains() && !task.status.at_own_pace;
      run.replicas.push_back(replica_of(run.tasks.size(), replica, runs ? task.age : 0, in_step));
      if (!runs || !task.status.trains()) continue;
      steps.push_back({.task = replica.task, .last = replica.last});
      of_replica.push_back(run.replicas.size() - 1);
    }
    if (task.status.trains()) {
      train += 1;
      processes = std::max(processes, task.status.processes);
    }
    run.tasks.push_back(std::move(task));
  }
  run.missing = std::max<int64_t>(0, processes - train);
  run.straggler = plan::find_straggler(steps, at_own_pace);
  if (run.straggler) {
    run.straggler_text = run.straggler->text(steps[run.straggler->task].task);
    run.straggler->task = of_replica[run.straggler->task];
  }
  return run;
}

}  // namespace muster::inline v0_1::summary

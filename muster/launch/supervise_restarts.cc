#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/exit_code.h"
#include "muster/launch/internal/run_outcome.h"
#include "muster/launch/internal/supervisor.h"

namespace muster::inline v0_1::launch::internal {
namespace {

// Tasks that fail alike within it need one line.
constexpr std::chrono::milliseconds kTogether{500};
// A task that was started again when the run was over has this time to notice it by itself.
constexpr std::chrono::milliseconds kToNotice{5000};

}  // namespace

void Supervisor::on_exit(RunningTask& task) {
  if (task.exit.status.ok() && first_done_.empty() && !task.spec->beside) {
    first_done_ = task.spec->name;
    done_time_ = SteadyClock::now();
  }
  if (task.exit.status.ok() || stop_signal_ != 0) return;
  if (phase_ == Phase::kRunning && was_lost(task) && is_too_late(task)) {
    task.exit.too_late = true;
    return;
  }
  if (options_.stop_on_address_in_use && task.exit.status.code == kExitRestart &&
      task.said_address_in_use() && phase_ == Phase::kRunning) {
    address_in_use_ = true;
    stop_all(SIGTERM, options_.grace);
    return;
  }
  if (address_in_use_ || phase_ == Phase::kStopping || phase_ == Phase::kKilled) return;
  const std::string what = fmt::format("{}: {}", task.spec->name, short_text(task.exit.status));
  if (phase_ == Phase::kRunning && was_lost(task) && start_again(task, what)) return;
  if (phase_ == Phase::kSurvivors) {
    if (held_.empty()) return say(what);
    held_.push_back(what);
    return;
  }
  // Where the error is the run's, the others end with it too.
  task.exit.refused = task.spec->spared && task.restarts > 0 &&
                      !asks_for_restart(task.exit.status) && enough_are_left();
  const std::string others = names_of_running();
  if (others.empty()) return;  // the report says it
  const bool may_be_lost =
      task.exit.refused || (task.spec->may_be_lost && asks_for_restart(task.exit.status));
  task.exit.needed = may_be_lost && !enough_are_left();
  if (task.spec->beside || (may_be_lost && !task.exit.needed)) {
    say(fmt::format("{}; the run continues with {}", what, others));
    return;
  }
  held_ = {fmt::format("{}; waiting up to {} for {} to end", what,
                       describe_seconds(options_.survivor_time), others)};
  held_until_ = SteadyClock::now() + kTogether;
  phase_ = Phase::kSurvivors;
  deadline_ = SteadyClock::now() + options_.survivor_time;
}

void Supervisor::heed_others() {
  if (!options_.others || phase_ == Phase::kKilled) return;
  const OtherGroups others = options_.others();
  if (others.stop_signal != 0 && stop_signal_ == 0) on_signal(others.stop_signal);
  if (!others.done.empty() && first_done_.empty()) {
    first_done_ = others.done;
    done_time_ = SteadyClock::now();
  }
  const std::string running = names_of_running();
  if (others.failed.empty() || phase_ != Phase::kRunning || running.empty()) return;
  say(fmt::format("{}; waiting up to {} for {} to end", others.failed,
                  describe_seconds(options_.survivor_time), running));
  phase_ = Phase::kSurvivors;
  deadline_ = SteadyClock::now() + options_.survivor_time;
}

bool Supervisor::enough_are_left() const {
  return std::ranges::count_if(tasks_, [](const RunningTask& task) {
           // Those that have ended well had enough others to the end.
           return !task.spec->beside && (!task.exit.ended || task.exit.status.ok());
         }) >= options_.min_tasks;
}

bool Supervisor::was_lost(const RunningTask& task) {
  // A task that stopped with 130 or 143 was asked to.
  return task.exit.status.signal != 0 ||
         (asks_for_restart(task.exit.status) && task.exit.status.code != kExitInterrupted &&
          task.exit.status.code != kExitTerminated);
}

bool Supervisor::start_again(RunningTask& task, const std::string& what) {
  const ProcessSpec* spec = task.spec;
  plan::RestartBudget budget =
      task.budget.value_or(plan::RestartBudget({.restarts = spec->restarts}));
  const double now = std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
  // Without the pause: the others go on, and wait for this task.
  if (!budget.take(now)) return false;
  say(fmt::format("{}; starting it again ({} of {})", what, budget.used(now), spec->restarts));
  const RunningTask before = task;
  task = RunningTask();
  task.spec = spec;
  task.restarts = before.restarts + 1;
  task.budget = budget;
  try {
    begin(task);
  } catch (const Error& error) {
    // The program may be replaced at this moment, or the machine be full: the others have a run to
    // save.
    task = before;
    say(fmt::format("it cannot be started again: {}", error.message()));
    return false;
  }
  return true;
}

void Supervisor::stop_those_left_alone() {
  if (phase_ != Phase::kSurvivors) return;
  bool restart = false;
  for (const RunningTask& task : tasks_) {
    if (task.spec->beside) continue;
    if (!task.reaped) return;
    restart = restart || asks_for_restart(task.exit.status);
  }
  const std::string who = names_of_running();
  if (!restart || who.empty()) return;
  say(fmt::format("{} is the only task left: sending SIGTERM", who));
  stop_all(SIGTERM, options_.grace);
}

bool Supervisor::is_too_late(const RunningTask& task) const {
  const auto came_again = [](const RunningTask& one) {
    return one.restarts > 0 && (one.spec->may_be_lost || one.spec->serves);
  };
  return came_again(task) &&
         std::all_of(tasks_.begin(), tasks_.end(), [&](const RunningTask& other) {
           return came_again(other) || (other.reaped && other.exit.status.ok());
         });
}

void Supervisor::stop_those_too_late() {
  if (phase_ != Phase::kRunning || first_done_.empty()) return;
  SteadyClock::time_point last;
  for (RunningTask& task : tasks_) {
    if (task.reaped) last = std::max(last, task.exit_time);
    if (!task.exit.ended && !is_too_late(task)) return;
  }
  const std::string who = names_of_running();
  const auto time = std::min(options_.survivor_time, kToNotice);
  if (who.empty() || SteadyClock::now() < last + time) return;
  say(fmt::format("{} was restarted, but the run has ended without it: sending SIGTERM", who));
  for (RunningTask& task : tasks_) task.exit.too_late |= !task.exit.ended;
  stop_all(SIGTERM, options_.grace);
}

}  // namespace muster::inline v0_1::launch::internal

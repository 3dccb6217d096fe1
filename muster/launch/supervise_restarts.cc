#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
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
  if (phase_ == Phase::kRunning && was_lost(task) && !first_done_.empty() && is_too_late(task)) {
    task.exit.too_late = true;
    return;
  }
  if (options_.stop_on_address_in_use && task.exit.status.code == kExitRestart &&
      task.said_address_in_use() && phase_ == Phase::kRunning) {
    address_in_use_ = true;
    own_.failed = fmt::format("{}: {}", task.spec->name, short_text(task.exit.status));
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
  end_without(task, what);
}

void Supervisor::end_without(RunningTask& task, const std::string& what) {
  // Where the error is the run's, the others end with it too.
  task.exit.refused = task.spec->spared && is_newcomer(task) &&
                      !asks_for_restart(task.exit.status) && enough_are_left();
  const std::string others = names_of_running();
  if (others.empty() && !options_.asks_others) return;  // the report says it
  const bool may_be_lost =
      task.exit.refused || (task.spec->may_be_lost && asks_for_restart(task.exit.status));
  task.exit.needed = may_be_lost && !enough_are_left();
  if (!task.spec->beside && (!may_be_lost || task.exit.needed) && own_.failed.empty())
    own_.failed = what;
  if (task.spec->beside || (may_be_lost && !task.exit.needed)) {
    say(fmt::format("{}; the run continues with {}", what,
                    others.empty() ? "the other machines" : others));
    return;
  }
  if (others.empty()) return;
  held_ = {fmt::format("{}; waiting up to {} for {} to end", what,
                       describe_seconds(options_.survivor_time), others)};
  held_until_ = SteadyClock::now() + kTogether;
  phase_ = Phase::kSurvivors;
  deadline_ = SteadyClock::now() + options_.survivor_time;
}

const GroupState& Supervisor::own_state() {
  own_.left = static_cast<int>(std::ranges::count_if(tasks_, [](const RunningTask& task) {
    return !task.spec->beside && (!task.exit.ended || task.exit.status.ok() || task.asks);
  }));
  return own_;
}

void Supervisor::heed_others() {
  if (!options_.others) return;
  const OtherGroups others = options_.others(own_state());
  if (phase_ == Phase::kKilled) return;
  if (others.stop_signal != 0 && stop_signal_ == 0) on_signal(others.stop_signal);
  if (others.kills) {
    say("killing all tasks of this machine");
    return kill_all();
  }
  while (phase_ == Phase::kRunning && !own_.asks.empty()) {
    const int64_t next = own_.answered - others.first_answer;
    if (next < 0 || next >= std::ssize(others.answers)) break;
    take_answer(others.answers[static_cast<std::size_t>(next)] != 0);
  }
  if (!others.done.empty() && first_done_.empty()) {
    first_done_ = others.done;
    done_time_ = SteadyClock::now();
  }
  if (others.failed.empty() || phase_ != Phase::kRunning) return;
  for (RunningTask& task : tasks_) {
    const bool is_lost = task.exit.ended && task.spec->spared && was_lost(task);
    task.exit.needed = task.exit.needed || (others.too_few && is_lost);
  }
  const std::string running = names_of_running();
  if (others.left_out) {
    if (!running.empty()) say(fmt::format("{}; stopping {}", others.failed, running));
    return stop_all(SIGTERM, options_.grace);
  }
  if (!running.empty()) {
    say(fmt::format("{}; waiting up to {} for {} to end", others.failed,
                    describe_seconds(options_.survivor_time), running));
  }
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

bool Supervisor::is_newcomer(const RunningTask& task) {
  return task.restarts > 0 || task.spec->newcomer;
}

bool Supervisor::start_again(RunningTask& task, const std::string& what) {
  const ProcessSpec* spec = task.spec;
  if (options_.asks_others && spec->spared) {
    if (spec->restarts == 0) return false;
    say(what);
    task.asks = true;
    own_.asks.push_back(what);
    asking_.push_back(index_of(task));
    return true;
  }
  plan::RestartBudget budget =
      task.budget.value_or(plan::RestartBudget({.restarts = spec->restarts}));
  const double now = std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
  // Without the pause: the others go on, and wait for this task.
  if (!budget.take(now)) return false;
  say(fmt::format("{}; starting it again ({} of {})", what, budget.used(now), spec->restarts));
  return begin_again(task, std::move(budget));
}

bool Supervisor::begin_again(RunningTask& task, std::optional<plan::RestartBudget> budget) {
  const RunningTask before = task;
  task = RunningTask();
  task.spec = before.spec;
  task.restarts = before.restarts + 1;
  task.budget = std::move(budget);
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

void Supervisor::take_answer(bool starts_again) {
  RunningTask& task = tasks_[asking_.front()];
  const std::string what = own_.asks.front();
  asking_.erase(asking_.begin());
  own_.asks.erase(own_.asks.begin());
  ++own_.answered;
  task.asks = false;
  if (!starts_again || !begin_again(task, {})) end_without(task, what);
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
    return is_newcomer(one) && (one.spec->may_be_lost || one.spec->serves);
  };
  return came_again(task) &&
         std::all_of(tasks_.begin(), tasks_.end(), [&](const RunningTask& other) {
           return came_again(other) || (other.reaped && other.exit.status.ok());
         });
}

void Supervisor::stop_those_too_late() {
  if (phase_ != Phase::kRunning || first_done_.empty()) return;
  SteadyClock::time_point last = done_time_;
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

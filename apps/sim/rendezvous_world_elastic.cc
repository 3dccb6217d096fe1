// The tasks of an elastic run on several machines, as models: the first task of machine 0 is the
// chief. Those that it can reach make steps with it while they are enough.
#include <fmt/format.h>

#include <algorithm>

#include "apps/sim/rendezvous_world.h"
#include "muster/base/exit_code.h"

namespace muster::sim {
namespace {

constexpr double kBegin = 10;     // seconds until a task that was started waits for others in vain
constexpr double kChiefTime = 3;  // seconds until a task ends that cannot reach the chief
constexpr double kJoinsWithin = 20;  // seconds
constexpr int kHungRank = 4;  // as in launch::Outcome, of a task that hangs when it is to end

}  // namespace

void RendezvousWorld::watch_elastic_tasks(Process& it) {
  const auto loss = planted_.ignores_silence ? std::nullopt : it.link.loss(agenda_.now());
  if (it.ending) {
    if (agenda_.now() >= it.tasks_end_at) return finish_tasks(it);
    if (it.outcome.rank == kHungRank) it.launcher.tasks_are({.failed = "a task hung"});
    (void)it.launcher.others(it.link.view(), loss);
    return;
  }
  it.node == 0 ? train(it) : follow(it);
  if (it.ending) return;
  it.launcher.tasks_are(state_of(it));
  const launch::OtherGroups others = it.launcher.others(it.link.view(), loss);
  take_answers(it, others);
  const bool chief_lives = it.node == 0 && it.tasks.front() == Task::kRuns;
  if (chief_lives && it.stop_signal == 0 && !loss && it.link.view().round == it.begun->second) {
    // The connection of this launcher to the rendezvous in its own process counts as any.
    require(others.failed.empty() || (others.too_few && !all_are_there()) ||
                others.failed.starts_with("node 0"),
            "an elastic run continues while enough tasks are left");
  }
  if (!chief_lives && it.node == 0)
    return end_tasks(it, agenda_.uniform(0, 3), {.exit_code = kExitKilled, .rank = 1});
  if (!others.failed.empty()) {
    note(it, "ends its tasks: " + others.failed);
    const bool needed = others.too_few && std::ranges::count(it.tasks, Task::kLost) > 0;
    return end_tasks(it, agenda_.uniform(0.1, kSurvivorTime),
                     {.exit_code = kExitRestart,
                      .rank = needed                 ? 1
                              : it.node == 0         ? 5
                              : agenda_.draw(2) == 0 ? 6
                                                     : kHungRank});
  }
  if (others.stop_signal != 0 || it.stop_signal != 0)
    return end_tasks(it, agenda_.uniform(0.1, 2), {.exit_code = kExitTerminated, .rank = 7});
  if (std::ranges::count(it.tasks, Task::kLost) == std::ssize(it.tasks))
    end_tasks(it, 0, {.exit_code = kExitKilled, .rank = 6, .reasons = {"all are lost"}});
}

launch::GroupState RendezvousWorld::state_of(const Process& it) const {
  launch::GroupState state{.stop_signal = it.stop_signal, .answered = it.answered};
  const auto lost = std::ranges::count(it.tasks, Task::kLost);
  state.left = static_cast<int>(std::ssize(it.tasks) - lost);
  state.asks.assign(it.asking.size(), "a task was killed");
  const bool fails = it.node == 0 && it.tasks.front() == Task::kLost;
  const bool says_so = planted_.losses_are_failures && (lost > 0 || !it.asking.empty());
  if (fails || says_so) state.failed = "a task was killed";
  return state;
}

void RendezvousWorld::take_answers(Process& it, const launch::OtherGroups& others) {
  while (!it.asking.empty()) {
    const int64_t next = it.answered - others.first_answer;
    const bool answered = next >= 0 && next < std::ssize(others.answers);
    if (!answered && !planted_.restarts_unasked) return;
    const bool again = planted_.restarts_unasked || others.answers[static_cast<size_t>(next)] != 0;
    it.tasks[it.asking.front()] = again ? Task::kRuns : Task::kLost;
    note(it, again ? "starts a task again" : "does not start a task again");
    if (again) ++restarts_of_tasks_[it.begun->first];
    it.asking.erase(it.asking.begin());
    ++it.answered;
  }
}

void RendezvousWorld::lose_task(Process& it, size_t task) {
  if (it.tasks[task] != Task::kRuns) return;
  const bool asks = restarts_ > 0 && (it.node != 0 || task != 0);
  it.tasks[task] = asks ? Task::kAsks : Task::kLost;
  if (asks) it.asking.push_back(task);
  it.launcher.tasks_are(state_of(it));
}

void RendezvousWorld::train(Process& chief) {
  if (members(chief) >= least_ * tasks_) {
    chief.alone_since.reset();
    chief.work += kTick;
  } else if (!chief.alone_since) {
    chief.alone_since = std::max(agenda_.now(), chief.begun_at + kBegin);
  } else if (agenda_.now() > *chief.alone_since + kMemoryTime) {
    note(chief, "the chief gives up: too few others");
    chief.tasks.front() = Task::kLost;
    chief.launcher.tasks_are(state_of(chief));
    return end_tasks(chief, 0, {.exit_code = kExitRestart, .rank = 3});
  }
  if (chief.work >= duration_) end_tasks(chief, 0, {});
}

void RendezvousWorld::follow(Process& it) {
  const ProcessPtr chief = machine(0).launcher;
  const bool is_done = chief != nullptr && chief->begun == it.begun &&
                       (chief->ending || !chief->runs) && chief->outcome.exit_code == 0;
  if (is_done && !is_cut(it.node)) return end_tasks(it, agenda_.uniform(0, 1), {});
  if (sees_chief(it)) return it.alone_since.reset();
  if (!it.alone_since) it.alone_since = std::max(agenda_.now(), it.begun_at + kBegin);
  if (agenda_.now() < *it.alone_since + kChiefTime) return;
  for (size_t task = 0; task < it.tasks.size(); ++task) lose_task(it, task);
  it.alone_since = agenda_.now();
}

bool RendezvousWorld::all_are_there() {
  const auto& begun = machine(0).launcher->begun;
  return std::ranges::all_of(machines_, [&](const Machine& machine) {
    const Process* const it = machine.launcher.get();
    return it != nullptr && it->begun == begun && it->runs && !it->ending &&
           std::ranges::count(it->tasks, Task::kLost) == 0;
  });
}

int RendezvousWorld::members(const Process& chief) {
  int members = 0;
  for (int node = 0; node < nodes_; ++node) {
    const ProcessPtr it = machine(node).launcher;
    const bool trains = it != nullptr && it->begun == chief.begun && it->runs && !it->ending;
    if (trains && (node == 0 || !is_cut(node)))
      members += static_cast<int>(std::ranges::count(it->tasks, Task::kRuns));
  }
  return members;
}

bool RendezvousWorld::sees_chief(const Process& it) {
  const ProcessPtr chief = machine(0).launcher;
  return chief != nullptr && chief->begun == it.begun && chief->runs && !chief->ending &&
         !is_cut(it.node);
}

void RendezvousWorld::check_join(Process& it) {
  const ProcessPtr chief = machine(0).launcher;
  const NodeReport& report = it.launcher.report();
  const bool runs = chief != nullptr && chief->runs && !chief->ending && server_ != nullptr &&
                    chief->begun->first == server_->id;
  const bool waits = !it.runs && !it.left_at && report.state == NodeReport::State::kReady &&
                     report.stop_signal == 0 && it.connection != 0 &&
                     agenda_.now() - it.heard_at < 3 &&
                     agenda_.now() > std::max(machine(it.node).still_until, machine(0).still_until);
  if (!runs || !waits) return it.waits_since.reset();
  if (!it.waits_since) it.waits_since = agenda_.now();
  require(agenda_.now() - *it.waits_since < kJoinsWithin,
          "a machine that comes takes part in the start that runs");
}

}  // namespace muster::sim

// What a launcher does, as NodeRun does it.
#include <fmt/format.h>

#include <algorithm>

#include "apps/sim/rendezvous_world.h"
#include "muster/base/exit_code.h"

namespace muster::sim {

std::optional<RendezvousWorld::Loss> RendezvousWorld::loss(const Launcher& it) const {
  if (it.last_heard < 0) return std::nullopt;
  const double silent = agenda_.now() - it.last_heard;
  if (it.refused_since && agenda_.now() - *it.refused_since > kReconnect) return Loss{true, silent};
  if (silent <= kSilence) return std::nullopt;
  return Loss{false, silent};
}

void RendezvousWorld::tick(const LauncherPtr& it) {
  if (!lives(it)) return;
  when_awake(it->node, [=, this] {
    if (!lives(it)) return;
    talk(it);
    act(it);
    if (lives(it)) agenda_.after(kTick, [=, this] { tick(it); });
  });
}

void RendezvousWorld::talk(const LauncherPtr& it) {
  if (it->connection != 0 && agenda_.now() - it->connection_heard > kSilence) {
    close_later(it->connection);
    it->connection = 0;
  }
  // The end of the rendezvous' process closes its connections, where it can be reached.
  if (it->connection != 0 && !is_cut(it->node) &&
      (server_ == nullptr || !server_->open.contains(it->connection)))
    it->connection = 0;
  if (it->connection == 0) return connect(it);
  if (it->sent_changes != it->changes || agenda_.now() - it->sent_at > 1) send(it);
}

void RendezvousWorld::act(const LauncherPtr& it) {
  using Phase = Launcher::Phase;
  if (it->phase == Phase::kJoining) hear(*it);
  if (it->phase == Phase::kLeaving) return leave(it);
  if (it->phase == Phase::kRunning) return watch_tasks(it);
  if (it->view.state == RunView::State::kOver) return end(it, it->view.exit_code, true);
  const bool begins =
      it->view.state == RunView::State::kRunning || it->view.state == RunView::State::kEnding;
  if (it->phase == Phase::kHearing && it->view.rendezvous != 0) {
    join(it);
  } else if (it->phase == Phase::kJoining && begins) {
    begin_tasks(it);
  } else if (it->phase == Phase::kWaiting && (it->view.state == RunView::State::kGathering ||
                                              it->view.rendezvous != it->begun->first)) {
    join(it);
  } else if (const auto lost = loss(*it);
             (lost && (lost->ended || lost->seconds > kJoinTime)) ||
             (it->view.rendezvous == 0 && agenda_.now() - it->since > kJoinTime)) {
    end(it, kExitRestart, false);
  }
}

void RendezvousWorld::join(const LauncherPtr& it) {
  go(*it, Launcher::Phase::kJoining);
  change(*it, [&](NodeReport& report) {
    report.state = NodeReport::State::kReady;
    report.addresses = {fmt::format("host{}:1", report.node)};
    report.failing.clear();
    report.outcome = {};
  });
  hear(*it);
}

void RendezvousWorld::hear(Launcher& it) {
  if (planted_.claims_to_have_heard) {
    it.report.heard_rendezvous = it.view.rendezvous;
    it.report.heard_round = INT64_MAX;
    return;
  }
  if (it.view.state != RunView::State::kGathering) return;
  if (it.report.heard_rendezvous == it.view.rendezvous &&
      it.report.heard_round == it.view.last_round)
    return;
  change(it, [&](NodeReport& report) {
    report.heard_rendezvous = it.view.rendezvous;
    report.heard_round = it.view.last_round;
  });
}

void RendezvousWorld::begin_tasks(const LauncherPtr& it) {
  go(*it, Launcher::Phase::kRunning);
  it->begun = {it->view.rendezvous, it->view.round};
  it->tasks = it->begun;
  it->ending = false;
  it->tasks_end_at = agenda_.now() + duration_ + agenda_.uniform(0, 1);
  it->tasks_outcome = {};
  note(*it, fmt::format("starts the tasks of start {} of rendezvous {}", it->begun->second,
                        it->begun->first));
  change(*it, [&](NodeReport& report) {
    report.state = NodeReport::State::kRunning;
    report.round = it->begun->second;
  });
  int64_t& starts = starts_of_[it->begun->first];
  starts = std::max(starts, it->begun->second);
  if (planted_.starts_while_others_run) {
    change(*it, [](NodeReport& report) { report.state = NodeReport::State::kReady; });
  }
}

void RendezvousWorld::end_tasks(const LauncherPtr& it, double seconds, const NodeOutcome& outcome) {
  it->ending = true;
  it->tasks_outcome = outcome;
  it->tasks_end_at = agenda_.now() + seconds;
}

void RendezvousWorld::watch_tasks(const LauncherPtr& it) {
  if (agenda_.now() >= it->tasks_end_at) return finish_tasks(it);
  if (it->ending) return;
  const auto lost = loss(*it);
  const bool other = it->view.rendezvous != it->begun->first || it->view.round != it->begun->second;
  const bool failed = it->view.state == RunView::State::kEnding && !it->view.failure.empty();
  const NodeOutcome survivor{.exit_code = kExitRestart, .rank = 5, .reasons = {"lost a peer"}};
  if ((lost && !planted_.ignores_silence) || other || failed) {
    note(*it, lost ? "has lost the rendezvous, and ends its tasks"
                   : "ends its tasks, since the others do");
    return end_tasks(it, agenda_.uniform(0.1, kSurvivorTime), survivor);
  }
  if (it->view.stop_signal != 0 || it->report.stop_signal != 0)
    return end_tasks(it, agenda_.uniform(0.1, 2), {.exit_code = kExitTerminated, .rank = 2});
  // The tasks themselves notice the loss of others.
  for (int node = 0; node < nodes_; ++node) {
    const LauncherPtr peer = machine(node).launcher;
    const bool there = peer != nullptr && peer->begun == it->begun &&
                       (peer->tasks || peer->tasks_outcome.exit_code == 0);
    if (!there && agenda_.now() - it->since > 10)
      return end_tasks(it, agenda_.uniform(0, 3), survivor);
  }
}

void RendezvousWorld::finish_tasks(const LauncherPtr& it) {
  note(*it, fmt::format("its tasks have ended with {}", it->tasks_outcome.exit_code));
  it->tasks.reset();
  it->ending = true;
  if (it->tasks_outcome.exit_code == 0) ++ended_well_[*it->begun];
  change(*it, [&](NodeReport& report) {
    report.state = NodeReport::State::kEnded;
    report.outcome = it->tasks_outcome;
  });
  go(*it, Launcher::Phase::kWaiting);
}

void RendezvousWorld::leave(const LauncherPtr& it) {
  const double waited = agenda_.now() - it->since;
  const bool told = it->sent_changes == it->changes;
  const bool drained =
      it->node != 0 || server_ == nullptr || server_->rendezvous->all_left() || waited > 10;
  if ((!told && waited < 2) || !drained) return;
  // A run that asks for it is started again by its user, with the same command.
  machine(it->node).ended_well = true;
  if (it->connection != 0) close_later(it->connection);
  const int node = it->node;
  if (node != 0) {
    machine(node).launcher.reset();
    return;
  }
  agenda_.after(0.1, [this] {
    server_.reset();
    machine(0).launcher.reset();
  });
}

}  // namespace muster::sim

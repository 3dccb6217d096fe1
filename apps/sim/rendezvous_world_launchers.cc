// What the process of a launcher does.
#include <fmt/format.h>

#include <algorithm>

#include "apps/sim/rendezvous_world.h"
#include "muster/base/exit_code.h"

namespace muster::sim {

using nodes::Launcher;

void RendezvousWorld::tick(const ProcessPtr& it) {
  if (!lives(it)) return;
  when_awake(it->node, [=, this] {
    if (!lives(it)) return;
    talk(it);
    act(it);
    if (lives(it)) agenda_.after(kTick, [=, this] { tick(it); });
  });
}

void RendezvousWorld::talk(const ProcessPtr& it) {
  const auto broken = [&](const std::string& why) {
    it->link.failed(why, /*nobody_listens=*/false, agenda_.now());
    it->connection = 0;
  };
  if (it->connection != 0 && it->link.silence(agenda_.now())) {
    close_later(it->connection);
    broken("no word");
  }
  // The end of the rendezvous' process closes its connections, where it can be reached.
  if (it->connection != 0 && !is_cut(it->node) &&
      (server_ == nullptr || !server_->open.contains(it->connection)))
    broken("the connection was closed");
  if (it->connection == 0) return connect(it);
  if (const auto report = it->link.take_due(agenda_.now())) {
    send(*it, *report);
    it->link.sent(*report);
  }
}

void RendezvousWorld::act(const ProcessPtr& it) {
  if (it->left_at) return leave(it);
  if (it->runs) {
    elastic() ? watch_elastic_tasks(*it) : watch_tasks(*it);
  } else {
    const RunView& view = it->link.view();
    switch (it->launcher.next(view, it->link.loss(agenda_.now()), agenda_.now())) {
      case Launcher::Next::kJoin:
        it->launcher.join({fmt::format("host{}:1", it->node)});
        break;
      case Launcher::Next::kStart:
        begin_tasks(*it);
        break;
      case Launcher::Next::kLeave:
        it->left_at = agenda_.now();
        note(*it, fmt::format("ends with exit code {}", it->launcher.exit_code()));
        // A machine of an elastic run that is told to stop leaves the others.
        if (view.state == RunView::State::kOver &&
            (!elastic() || it->launcher.report().stop_signal == 0))
          codes_[view.rendezvous].insert(it->launcher.exit_code());
        break;
      case Launcher::Next::kWait:
        break;
    }
  }
  say(*it);
}

void RendezvousWorld::say(Process& it) {
  NodeReport report = it.launcher.report();
  if (planted_.starts_while_others_run && it.runs) report.state = NodeReport::State::kReady;
  if (planted_.claims_to_have_heard) {
    report.heard_rendezvous = it.link.view().rendezvous;
    report.heard_round = INT64_MAX;
  }
  if (planted_.never_heard) report.heard_rendezvous = 0;
  if (planted_.never_cut_off) report.cut_off = false;
  it.link.say(std::move(report));
}

void RendezvousWorld::leave(const ProcessPtr& it) {
  const double waited = agenda_.now() - *it->left_at;
  const bool drained = it->node != 0 || server_ == nullptr || server_->rendezvous->all_left() ||
                       waited > Launcher::kGoodbyeTime;
  if ((!it->link.has_said_all() && waited < Launcher::kLeaveTime) || !drained) return;
  const int node = it->node;
  machine(node).ended_well = true;
  // A machine that was taken away comes again.
  if (elastic() && node != 0 && it->launcher.report().stop_signal != 0 && agenda_.draw(2) == 0) {
    machine(node).ended_well = false;
    agenda_.after(agenda_.uniform(1, 40), [this, node] { start(node); });
  }
  if (it->connection != 0) close_later(it->connection);
  if (node != 0) {
    machine(node).launcher.reset();
    return;
  }
  agenda_.after(0.1, [this] {
    server_.reset();
    machine(0).launcher.reset();
  });
}

// --- tasks ---

void RendezvousWorld::begin_tasks(Process& it) {
  const RunView& view = it.link.view();
  it.begun = {view.rendezvous, view.round};
  it.runs = true;
  it.begun_at = it.heard_at = agenda_.now();
  it.ending = false;
  it.tasks_end_at = agenda_.now() + duration_ + agenda_.uniform(0, 1);
  it.outcome = {};
  it.stop_signal = 0;
  it.tasks.assign(elastic() ? static_cast<size_t>(tasks_) : 0, Task::kRuns);
  it.answered = 0;
  it.asking.clear();
  it.alone_since.reset();
  it.work = 0;
  if (trace_.kept())
    note(it,
         fmt::format("starts the tasks of start {} of rendezvous {}", view.round, view.rendezvous));
  int64_t& starts = starts_of_[view.rendezvous];
  starts = std::max(starts, view.round);
}

void RendezvousWorld::end_tasks(Process& it, double seconds, const NodeOutcome& outcome) {
  it.ending = true;
  it.outcome = outcome;
  it.tasks_end_at = agenda_.now() + seconds;
}

void RendezvousWorld::finish_tasks(Process& it) {
  note(it, fmt::format("its tasks have ended with {}", it.outcome.exit_code));
  it.runs = false;
  // The first machine's are enough in an elastic run.
  if (it.outcome.exit_code == 0 && (!elastic() || it.node == 0)) ++ended_well_[*it.begun];
  it.launcher.ended(it.outcome, it.stop_signal);
}

void RendezvousWorld::watch_tasks(Process& it) {
  if (agenda_.now() >= it.tasks_end_at) return finish_tasks(it);
  if (it.ending) return;
  const auto loss = planted_.ignores_silence ? std::nullopt : it.link.loss(agenda_.now());
  const launch::OtherGroups others = it.launcher.others(it.link.view(), loss);
  const NodeOutcome survivor{.exit_code = kExitRestart, .rank = 5, .reasons = {"lost a peer"}};
  if (!others.failed.empty()) {
    note(it, "ends its tasks: " + others.failed);
    return end_tasks(it, agenda_.uniform(0.1, kSurvivorTime), survivor);
  }
  if (others.stop_signal != 0 || it.stop_signal != 0)
    return end_tasks(it, agenda_.uniform(0.1, 2), {.exit_code = kExitTerminated, .rank = 7});
  // The tasks themselves notice the loss of others.
  for (int node = 0; node < nodes_; ++node) {
    const ProcessPtr peer = machine(node).launcher;
    const bool there =
        peer != nullptr && peer->begun == it.begun && (peer->runs || peer->outcome.exit_code == 0);
    if (!there && agenda_.now() - it.begun_at > 10)
      return end_tasks(it, agenda_.uniform(0, 3), survivor);
  }
}

}  // namespace muster::sim

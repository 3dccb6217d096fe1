#include "apps/sim/rendezvous_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "muster/base/exit_code.h"

namespace muster::sim {
namespace {

constexpr double kLaunchersEnd = 3000;  // seconds, whatever happens
constexpr int64_t kMostEvents = 400'000;
constexpr double kSilence = nodes::RendezvousLimits().heartbeat_timeout;

}  // namespace

RendezvousWorld::RendezvousWorld(uint64_t seed, const std::vector<Fault>& faults,
                                 const RendezvousScenario::Planted& planted, Trace& trace)
    : planted_(planted), trace_(trace), agenda_(derive_key(seed, {id_of("rendezvous")})) {
  nodes_ = 2 + static_cast<int>(agenda_.uniform(0, 3));
  restarts_ = static_cast<int>(agenda_.uniform(0, 5));
  duration_ = agenda_.uniform(20, 120);
  if (agenda_.draw(2) == 0) {
    least_ = 1 + agenda_.draw(nodes_);
    tasks_ = 1 + agenda_.draw(3);
  }
  machines_.resize(static_cast<size_t>(nodes_));
  for (int node = 0; node < nodes_; ++node)
    agenda_.after(agenda_.uniform(0, 10), [this, node] { start(node); });
  for (const Fault& fault : faults) {
    agenda_.at(fault.at, [this, &fault] {
      note(fault.text);
      strike(fault);
    });
  }
}

std::string RendezvousWorld::run() {
  try {
    for (int64_t events = 0; !over(); ++events) {
      require(agenda_.now() < kLaunchersEnd && events < kMostEvents, "the run ends");
      agenda_.step();
      check();
    }
    check_end();
  } catch (const Broken& broken) {
    note("broken law: " + broken.law);
    return broken.law;
  }
  return "";
}

void RendezvousWorld::when_awake(int node, const std::function<void()>& act) {
  const double still = machine(node).still_until;
  if (agenda_.now() < still) return agenda_.at(still, [=, this] { when_awake(node, act); });
  act();
}

void RendezvousWorld::start(int node) {
  if (machine(node).launcher != nullptr || machine(node).ended_well) return;
  nodes::Launcher launcher({.node = node,
                            .nodes = nodes_,
                            .least = least_,
                            .host = fmt::format("host{}", node),
                            .flags = {"--workers=1"}},
                           "host0:1", kJoinTime);
  nodes::RendezvousLink link({}, launcher.report(), agenda_.now());
  const auto it = std::make_shared<Process>(
      Process{.node = node, .number = ++processes_, .launcher = launcher, .link = link});
  machine(node).launcher = it;
  if (trace_.kept()) note(*it, fmt::format("process {} begins", it->number));
  if (node == 0) {
    server_ = std::make_shared<Server>();
    server_->id = it->number;
    server_->rendezvous = std::make_unique<Rendezvous>(
        nodes::RendezvousOptions{.first = launcher.report(),
                                 .job_id = "job",
                                 .id = it->number,
                                 .join_timeout = kJoinTime,
                                 .restarts = {.restarts = restarts_, .seed = it->number},
                                 .tasks = tasks_,
                                 .min_tasks = least_ * tasks_},
        agenda_.now());
    starts_of_[server_->id] = 0;
    serve(server_);
  }
  tick(it);
}

void RendezvousWorld::die(int node, bool again) {
  const ProcessPtr it = machine(node).launcher;
  if (it == nullptr) return;
  machine(node).launcher.reset();
  it->runs = false;  // its tasks die with it
  if (node == 0) {
    server_.reset();
  } else if (it->connection != 0) {
    close_later(it->connection);
  }
  if (again) agenda_.after(agenda_.uniform(0.5, 30), [this, node] { start(node); });
}

void RendezvousWorld::strike(const Fault& fault) {
  const int node = fault.task % nodes_;
  const ProcessPtr it = machine(node).launcher;
  const double until = agenda_.now() + fault.amount;
  switch (fault.kind) {
    case kTaskDies:
      if (it != nullptr && it->runs && !it->ending && elastic()) {
        lose_task(*it, static_cast<size_t>(fault.task / nodes_) % it->tasks.size());
      } else if (it != nullptr && it->runs && !it->ending) {
        it->launcher.tasks_are({.failed = "a task was killed"});
        end_tasks(*it, 0, {.exit_code = kExitKilled, .rank = 1, .reasons = {"a task was killed"}});
      }
      break;
    case kLauncherDies:
      die(node, /*again=*/true);
      break;
    case kLauncherStands:
      machine(node).still_until = std::max(machine(node).still_until, until);
      break;
    case kMachineIsCutOff:
      machine(node).cut_until = std::max(machine(node).cut_until, until);
      break;
    case kConnectionBreaks:
      if (it != nullptr && it->connection != 0) {
        close_later(it->connection);
        it->connection = 0;
      }
      break;
    case kNetworkIsSlow:
      slow_until_ = until;
      break;
    default:
      if (it == nullptr || it->left_at) break;
      it->runs ? void(it->stop_signal = SIGTERM) : it->launcher.stop(SIGTERM, agenda_.now());
  }
}

void RendezvousWorld::close_later(int64_t connection) {
  const ServerPtr server = server_;
  if (server == nullptr) return;
  const auto found = server->open.find(connection);
  if (found == server->open.end()) return;
  const double cut = std::max(machine(found->second.node).cut_until, machine(0).cut_until);
  agenda_.at(std::max(agenda_.now(), cut) + delay(), [=, this] {
    when_awake(0, [=, this] {
      const auto open = server->open.find(connection);
      if (server != server_ || open == server->open.end()) return;
      if (open->second.known)
        server->rendezvous->disconnected(open->second.process, open->second.node, agenda_.now());
      server->open.erase(open);
    });
  });
}

void RendezvousWorld::connect(const ProcessPtr& it) {
  if (it->connecting) return;
  it->connecting = true;
  const bool cut = is_cut(it->node);
  agenda_.after(cut ? 2 : 2 * delay(), [=, this] {
    when_awake(it->node, [=, this] {
      it->connecting = false;
      const bool reached = lives(it) && !cut && !is_cut(it->node);
      if (!reached || server_ == nullptr)
        return it->link.failed("no process answers", /*nobody_listens=*/reached, agenda_.now());
      it->connection = ++connections_;
      it->link.opened(agenda_.now());
      server_->open[it->connection] = {.launcher = it, .node = it->node, .process = it->number};
    });
  });
}

void RendezvousWorld::send(Process& it, const NodeReport& report) {
  const ServerPtr server = server_;
  const int64_t connection = it.connection;
  if (server == nullptr || !server->open.contains(connection)) return;
  Server::Open& open = server->open[connection];
  open.next_at = std::max(open.next_at, arrival(it.node));
  agenda_.at(open.next_at,
             [=, this] { when_awake(0, [=, this] { receive(server, connection, report); }); });
}

double RendezvousWorld::arrival(int node) {
  if (!is_cut(node)) return agenda_.now() + delay();
  return std::max(machine(node).cut_until, machine(0).cut_until) + delay();
}

void RendezvousWorld::receive(const ServerPtr& server, int64_t connection,
                              const NodeReport& report) {
  const auto found = server->open.find(connection);
  if (server != server_ || found == server->open.end()) return;
  Server::Open& open = found->second;
  const RunView view = server->rendezvous->report(open.process, report, agenda_.now());
  require(!view.refused, "a launcher of the run is not refused");
  if (!open.known) open.known = server->rendezvous->connected(open.process, open.node);
  answer(connection, open, view);
}

void RendezvousWorld::answer(int64_t connection, Server::Open& open, const RunView& view) {
  open.sent = view.state;
  open.sent_at = agenda_.now();
  const ProcessPtr it = open.launcher.lock();
  if (it == nullptr) return;
  it->answer_at = std::max(it->answer_at, arrival(it->node));
  agenda_.at(it->answer_at, [=, this] {
    when_awake(it->node, [=, this] {
      if (!lives(it) || it->connection != connection) return;
      it->heard_at = agenda_.now();
      it->link.heard(view, agenda_.now());
    });
  });
}

void RendezvousWorld::serve(const ServerPtr& server) {
  if (server != server_) return;
  when_awake(0, [=, this] {
    if (server != server_) return;
    for (auto& [connection, open] : server->open) {
      if (!open.known) continue;
      const RunView view = server->rendezvous->look(open.process, open.node, agenda_.now());
      if (view.state != open.sent || agenda_.now() - open.sent_at >= 1)
        answer(connection, open, view);
    }
    server->rendezvous->advance(agenda_.now());
    agenda_.after(kTick, [=, this] { serve(server); });
  });
}

void RendezvousWorld::check() {
  const Process* running = nullptr;
  for (const Machine& machine : machines_) {
    const Process* const it = machine.launcher.get();
    if (it != nullptr && elastic()) check_join(*machine.launcher);
    if (it == nullptr || !it->runs) continue;
    // The others may begin again without it, while its tasks end and reach no chief.
    if (elastic() && agenda_.now() - it->heard_at > kSilence) continue;
    require(running == nullptr || running->begun == it->begun,
            "tasks of two starts of the run never run at the same time");
    running = it;
    const double silent_since = std::max(it->heard_at, machine.still_until);
    require(agenda_.now() - silent_since < kSilence + kSurvivorTime + 2,
            "a launcher that hears nothing ends its tasks in time");
  }
}

void RendezvousWorld::check_end() {
  for (const auto& [rendezvous, codes] : codes_) {
    require(codes.size() == 1, "all launchers that hear the end have the same exit code");
    if (*codes.begin() != 0) continue;
    const bool well = std::ranges::any_of(ended_well_, [&](const auto& start) {
      return start.first.first == rendezvous && start.second == (elastic() ? 1 : nodes_);
    });
    require(well, "exit code 0 means that all tasks of one start ended well");
  }
  for (const auto& [rendezvous, starts] : starts_of_) {
    require(starts + restarts_of_tasks_[rendezvous] <= 1 + restarts_,
            "no more starts than the budget allows");
  }
}

}  // namespace muster::sim

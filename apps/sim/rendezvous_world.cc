#include "apps/sim/rendezvous_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/exit_code.h"

namespace muster::sim {
namespace {

constexpr double kLaunchersEnd = 3000;  // seconds, whatever happens
constexpr int64_t kMostEvents = 400'000;

}  // namespace

RendezvousWorld::RendezvousWorld(uint64_t seed, const std::vector<Fault>& faults,
                                 const RendezvousScenario::Planted& planted, Trace& trace)
    : planted_(planted), trace_(trace), agenda_(derive_key(seed, {id_of("rendezvous")})) {
  nodes_ = 2 + static_cast<int>(agenda_.uniform(0, 3));
  restarts_ = static_cast<int>(agenda_.uniform(0, 5));
  duration_ = agenda_.uniform(20, 120);
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
  auto it = std::make_shared<Launcher>();
  it->node = node;
  it->process = ++processes_;
  it->since = agenda_.now();
  it->report = report_of(node);
  machine(node).launcher = it;
  note(*it, fmt::format("process {} begins", it->process));
  if (node == 0) {
    server_ = std::make_shared<Server>();
    server_->id = it->process;
    server_->rendezvous = std::make_unique<Rendezvous>(
        nodes::RendezvousOptions{.first = it->report,
                                 .job_id = "job",
                                 .id = it->process,
                                 .join_timeout = kJoinTime,
                                 .restarts = {.restarts = restarts_, .seed = it->process}},
        agenda_.now());
    starts_of_[server_->id] = 0;
    serve(server_);
  }
  tick(it);
}

NodeReport RendezvousWorld::report_of(int node) const {
  return {.node = node,
          .nodes = nodes_,
          .host = fmt::format("host{}", node),
          .flags = {"--workers=1"},
          .state = NodeReport::State::kEnded};
}

void RendezvousWorld::die(int node, bool again) {
  const LauncherPtr it = machine(node).launcher;
  if (it == nullptr) return;
  machine(node).launcher.reset();
  it->tasks.reset();  // they die with it
  if (node == 0) {
    server_.reset();
  } else if (it->connection != 0) {
    close_later(it->connection);
  }
  if (again) agenda_.after(agenda_.uniform(0.5, 30), [this, node] { start(node); });
}

void RendezvousWorld::end(const LauncherPtr& it, int code, bool heard) {
  if (it->code) return;
  it->code = code;
  it->phase = Launcher::Phase::kLeaving;
  it->since = agenda_.now();
  note(*it, fmt::format("ends with exit code {}", code));
  change(*it, [](NodeReport& report) { report.state = NodeReport::State::kLeaving; });
  if (heard) codes_[it->view.rendezvous].insert(code);
}

void RendezvousWorld::strike(const Fault& fault) {
  const int node = fault.task % nodes_;
  const LauncherPtr it = machine(node).launcher;
  const double until = agenda_.now() + fault.amount;
  switch (fault.kind) {
    case kTaskDies:
      if (it != nullptr && it->tasks && !it->ending) {
        end_tasks(it, 0, {.exit_code = kExitKilled, .rank = 1, .reasons = {"a task was killed"}});
      }
      break;
    case kLauncherDies:
      die(node, /*again=*/true);
      break;
    case kLauncherStands:
      machine(node).still_until = until;
      break;
    case kMachineIsCutOff:
      machine(node).cut_until = until;
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
      if (it != nullptr && !it->code) {
        change(*it, [](NodeReport& report) { report.stop_signal = 15; });
      }
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

void RendezvousWorld::connect(const LauncherPtr& it) {
  if (it->connecting) return;
  it->connecting = true;
  const bool cut = is_cut(it->node);
  agenda_.after(cut ? 2 : 2 * delay(), [=, this] {
    when_awake(it->node, [=, this] {
      it->connecting = false;
      if (!lives(it) || cut || is_cut(it->node)) {
        it->refused_since.reset();
        return;
      }
      if (server_ == nullptr) {
        if (!it->refused_since) it->refused_since = agenda_.now();
        return;
      }
      it->connection = ++connections_;
      it->sent_changes = -1;
      it->connection_heard = agenda_.now();
      server_->open[it->connection] = {.launcher = it, .node = it->node, .process = it->process};
    });
  });
}

void RendezvousWorld::send(const LauncherPtr& it) {
  it->sent_changes = it->changes;
  it->sent_at = agenda_.now();
  const ServerPtr server = server_;
  const int64_t connection = it->connection;
  if (server == nullptr || !server->open.contains(connection)) return;
  Server::Open& open = server->open[connection];
  // Words wait in the network while the machine is cut off.
  double arrives = agenda_.now() + delay();
  if (is_cut(it->node))
    arrives = std::max(machine(it->node).cut_until, machine(0).cut_until) + delay();
  open.next_at = std::max(open.next_at, arrives);
  agenda_.at(open.next_at, [=, this, report = it->report] {
    when_awake(0, [=, this] { receive(server, connection, report); });
  });
}

void RendezvousWorld::receive(const ServerPtr& server, int64_t connection,
                              const NodeReport& report) {
  const auto found = server->open.find(connection);
  if (server != server_ || found == server->open.end()) return;
  Server::Open& open = found->second;
  const RunView view = server->rendezvous->report(open.process, report, agenda_.now());
  require(!view.refused || report.state == NodeReport::State::kLeaving ||
              view.refused->message().find("another launcher is node") != std::string::npos,
          "a launcher of the run is not refused");
  if (!open.known) open.known = server->rendezvous->connected(open.process, open.node);
  answer(connection, open, view);
}

void RendezvousWorld::answer(int64_t connection, Server::Open& open, const RunView& view) {
  open.sent = view.state;
  open.sent_at = agenda_.now();
  const LauncherPtr it = open.launcher.lock();
  if (it == nullptr) return;
  double arrives = agenda_.now() + delay();
  if (is_cut(it->node))
    arrives = std::max(machine(it->node).cut_until, machine(0).cut_until) + delay();
  it->answer_at = std::max(it->answer_at, arrives);
  agenda_.at(it->answer_at, [=, this] {
    when_awake(it->node, [=, this] {
      if (!lives(it) || it->connection != connection) return;
      it->last_heard = it->connection_heard = agenda_.now();
      it->refused_since.reset();
      it->view = view;
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
  std::optional<std::pair<uint64_t, int64_t>> running;
  for (const Machine& machine : machines_) {
    if (machine.launcher == nullptr || !machine.launcher->tasks) continue;
    const auto& tasks = *machine.launcher->tasks;
    require(!running || *running == tasks,
            "tasks of two starts of the run never run at the same time");
    running = tasks;
  }
  for (Machine& machine : machines_) {
    if (machine.launcher == nullptr) continue;
    Launcher& it = *machine.launcher;
    const bool silent = it.tasks && it.last_heard >= 0 && !it.refused_since;
    if (!silent) continue;
    const double still = std::max(it.last_heard, machine.still_until);
    require(agenda_.now() - std::max(still, it.since) < kSilence + kSurvivorTime + 2,
            "a launcher that hears nothing ends its tasks in time");
  }
}

void RendezvousWorld::check_end() {
  for (const auto& [rendezvous, codes] : codes_) {
    require(codes.size() == 1, "all launchers that hear the end have the same exit code");
    if (*codes.begin() != 0) continue;
    const bool well = std::ranges::any_of(ended_well_, [&](const auto& start) {
      return start.first.first == rendezvous && start.second == nodes_;
    });
    require(well, "exit code 0 means that all tasks of one start ended well");
  }
  for (const auto& [rendezvous, starts] : starts_of_)
    require(starts <= 1 + restarts_, "no more starts than the budget allows");
}

}  // namespace muster::sim

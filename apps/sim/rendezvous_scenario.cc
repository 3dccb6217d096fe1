#include "apps/sim/rendezvous_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "apps/sim/agenda.h"
#include "muster/base/exit_code.h"
#include "muster/base/random.h"
#include "muster/nodes/rendezvous.h"

namespace muster::sim {
namespace {

using nodes::NodeOutcome;
using nodes::NodeReport;
using nodes::Rendezvous;
using nodes::RunView;

constexpr double kLastStrike = 100;  // seconds: no fault begins later
constexpr double kLongestStrike = 25;
constexpr double kJoinTime = 60;
constexpr double kLaunchersEnd = 3000;  // whatever happens
constexpr double kTick = 0.25;          // between a launcher's looks
constexpr double kSilence = 6, kReconnect = 2;
// Tasks that are to end get this long before they are killed.
constexpr double kSurvivorTime = 15;
constexpr int64_t kMostEvents = 400'000;

enum RendezvousFault {
  kTaskDies,
  kLauncherDies,
  kLauncherStands,
  kMachineIsCutOff,
  kConnectionBreaks,
  kNetworkIsSlow,
  kStopSignal,
  kRendezvousFaults
};

// A launcher's process, as NodeRun has it.
struct Launcher {
  enum class Phase { kHearing, kJoining, kRunning, kWaiting, kLeaving };
  int node = 0;
  uint64_t process = 0;
  Phase phase = Phase::kHearing;
  double since = 0;  // of the phase
  NodeReport report{};
  int64_t changes = 0;  // of the report
  RunView view{};
  // The connection: 0 for none. One that breaks is seen later on both sides.
  int64_t connection = 0;
  bool connecting = false;
  double connection_heard = 0;  // when something came on it
  double answer_at = 0;         // answers of one connection stay in order
  double last_heard = -1;       // of the rendezvous; -1: never
  std::optional<double> refused_since{};
  int64_t sent_changes = -1;
  double sent_at = 0;
  // The start of the run whose tasks run: the rendezvous and its number.
  std::optional<std::pair<uint64_t, int64_t>> tasks{};
  std::optional<std::pair<uint64_t, int64_t>> begun{};  // the last one it took part in
  double tasks_end_at = 0;
  NodeOutcome tasks_outcome{};
  bool ending = false;
  std::optional<double> cut_since{};  // its tasks run and nothing is heard
  std::optional<int> code{};          // over
  bool heard_end = false;             // by kOver, not by a loss
};
using LauncherPtr = std::shared_ptr<Launcher>;

// The rendezvous in the process of machine 0's launcher.
struct Server {
  uint64_t id = 0;
  std::unique_ptr<Rendezvous> rendezvous{};
  struct Open {
    std::weak_ptr<Launcher> launcher{};
    int node = 0;
    uint64_t process = 0;
    bool known = false;
    double next_at = 0;  // words of one connection stay in order
    RunView::State sent = RunView::State::kGathering;
    double sent_at = -1;
  };
  std::map<int64_t, Open> open{};  // by connection
};
using ServerPtr = std::shared_ptr<Server>;

class RendezvousWorld {
 public:
  RendezvousWorld(uint64_t seed, const std::vector<Fault>& faults,
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

  std::string run() {
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

 private:
  struct Machine {
    LauncherPtr launcher{};
    double cut_until = 0, still_until = 0;
    bool ended_well = false;  // its launcher has ended by itself, and is not started again
  };

  void note(const std::string& line) { trace_.add(agenda_.now(), line); }
  void note(const Launcher& launcher, const std::string& line) {
    if (trace_.kept()) note(fmt::format("launcher {}: {}", launcher.node, line));
  }
  Machine& machine(int node) { return machines_[static_cast<size_t>(node)]; }
  bool lives(const LauncherPtr& it) const {
    return machines_[static_cast<size_t>(it->node)].launcher == it;
  }
  bool is_cut(int node) {
    return agenda_.now() < machine(node).cut_until || agenda_.now() < machine(0).cut_until;
  }
  double delay() {
    const bool slow = agenda_.now() < slow_until_;
    return agenda_.uniform(0.001, slow ? 2 : 0.05);
  }
  // The process does it when it does not stand still.
  void when_awake(int node, const std::function<void()>& act) {
    const double still = machine(node).still_until;
    if (agenda_.now() < still) return agenda_.at(still, [=, this] { when_awake(node, act); });
    act();
  }

  bool over() {
    return std::ranges::all_of(machines_,
                               [](const Machine& machine) { return machine.ended_well; });
  }

  // --- processes ---

  void start(int node) {
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

  NodeReport report_of(int node) const {
    return {.node = node,
            .nodes = nodes_,
            .host = fmt::format("host{}", node),
            .flags = {"--workers=1"},
            .state = NodeReport::State::kEnded};
  }

  void die(int node, bool again) {
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

  void end(const LauncherPtr& it, int code, bool heard) {
    if (it->code) return;
    it->code = code;
    it->heard_end = heard;
    it->phase = Launcher::Phase::kLeaving;
    it->since = agenda_.now();
    note(*it, fmt::format("ends with exit code {}", code));
    change(*it, [](NodeReport& report) { report.state = NodeReport::State::kLeaving; });
    if (heard) codes_[it->view.rendezvous].insert(code);
  }

  void strike(const Fault& fault) {
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
          stopped_ = true;
          change(*it, [](NodeReport& report) { report.stop_signal = 15; });
        }
    }
  }

  // --- connections ---

  // The server sees the end of a connection when the machine can be reached.
  void close_later(int64_t connection) {
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

  void connect(const LauncherPtr& it) {
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

  // A report on its way; the rendezvous hears it also when its sender is dead or cut off by then.
  void send(const LauncherPtr& it) {
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

  void receive(const ServerPtr& server, int64_t connection, const NodeReport& report) {
    const auto found = server->open.find(connection);
    if (server != server_ || found == server->open.end()) return;
    Server::Open& open = found->second;
    const RunView view = server->rendezvous->report(open.process, report, agenda_.now());
    require(!view.refused || report.state == NodeReport::State::kLeaving ||
                view.refused->message().find("another launcher is node") != std::string::npos,
            "a launcher of the run is not refused");
    if (!open.known) open.known = server->rendezvous->connected(open.process, open.node);
    answer(server, connection, open, view);
  }

  void answer(const ServerPtr& server, int64_t connection, Server::Open& open,
              const RunView& view) {
    (void)server;
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

  // The server's threads look for news.
  void serve(const ServerPtr& server) {
    if (server != server_) return;
    when_awake(0, [=, this] {
      if (server != server_) return;
      for (auto& [connection, open] : server->open) {
        if (!open.known) continue;
        const RunView view = server->rendezvous->look(open.process, open.node, agenda_.now());
        if (view.state != open.sent || agenda_.now() - open.sent_at >= 1)
          answer(server, connection, open, view);
      }
      server->rendezvous->advance(agenda_.now());
      agenda_.after(kTick, [=, this] { serve(server); });
    });
  }

  // --- launchers ---

  void change(Launcher& it, const std::function<void(NodeReport&)>& edit) {
    edit(it.report);
    ++it.changes;
  }

  struct Loss {
    bool ended = false;
    double seconds = 0;
  };
  std::optional<Loss> loss(const Launcher& it) const {
    if (it.last_heard < 0) return std::nullopt;
    const double silent = agenda_.now() - it.last_heard;
    if (it.refused_since && agenda_.now() - *it.refused_since > kReconnect)
      return Loss{true, silent};
    if (silent <= kSilence) return std::nullopt;
    return Loss{false, silent};
  }

  void tick(const LauncherPtr& it) {
    if (!lives(it)) return;
    when_awake(it->node, [=, this] {
      if (!lives(it)) return;
      talk(it);
      act(it);
      if (lives(it)) agenda_.after(kTick, [=, this] { tick(it); });
    });
  }

  void talk(const LauncherPtr& it) {
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

  void go(Launcher& it, Launcher::Phase phase) {
    it.phase = phase;
    it.since = agenda_.now();
  }

  void act(const LauncherPtr& it) {
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

  void join(const LauncherPtr& it) {
    go(*it, Launcher::Phase::kJoining);
    change(*it, [&](NodeReport& report) {
      report.state = NodeReport::State::kReady;
      report.addresses = {fmt::format("host{}:1", report.node)};
      report.failing.clear();
      report.outcome = {};
    });
    hear(*it);
  }

  // Says which round began last, as NodeRun::hears() does.
  void hear(Launcher& it) {
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

  void begin_tasks(const LauncherPtr& it) {
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

  // They end within that time, and this is how.
  void end_tasks(const LauncherPtr& it, double seconds, const NodeOutcome& outcome) {
    it->ending = true;
    it->tasks_outcome = outcome;
    it->tasks_end_at = agenda_.now() + seconds;
  }

  void watch_tasks(const LauncherPtr& it) {
    if (agenda_.now() >= it->tasks_end_at) return finish_tasks(it);
    if (it->ending) return;
    const auto lost = loss(*it);
    const bool other =
        it->view.rendezvous != it->begun->first || it->view.round != it->begun->second;
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

  void finish_tasks(const LauncherPtr& it) {
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

  void leave(const LauncherPtr& it) {
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

  // --- laws ---

  void check() {
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

  void check_end() {
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

  const RendezvousScenario::Planted& planted_;
  Trace& trace_;
  Agenda agenda_;
  int nodes_ = 2, restarts_ = 0;
  double duration_ = 60;  // seconds of the tasks' work
  std::vector<Machine> machines_;
  ServerPtr server_;
  uint64_t processes_ = 0;
  int64_t connections_ = 0;
  double slow_until_ = 0;
  bool stopped_ = false;
  std::map<uint64_t, std::set<int>> codes_;                 // heard, by rendezvous
  std::map<std::pair<uint64_t, int64_t>, int> ended_well_;  // machines, by start
  std::map<uint64_t, int64_t> starts_of_;                   // by rendezvous
};

}  // namespace

std::vector<Fault> RendezvousScenario::faults(uint64_t seed) const {
  Random random(derive_key(seed, {id_of("rendezvous"), id_of("faults")}));
  std::vector<Fault> faults(1 + random.uniform_below(6));
  for (Fault& fault : faults) {
    fault.at = kLastStrike * random.uniform();
    fault.kind = static_cast<int>(random.uniform_below(kRendezvousFaults));
    // The end of the run by a signal hides what comes after it.
    if (fault.kind == kStopSignal && random.uniform_below(3) != 0) fault.kind = kMachineIsCutOff;
    fault.task = static_cast<int>(random.uniform_below(12));
    fault.amount = kLongestStrike * random.uniform();
    const std::string node = fmt::format("machine {} (modulo their number)", fault.task);
    switch (fault.kind) {
      case kTaskDies:
        fault.text = "a task dies on " + node;
        break;
      case kLauncherDies:
        fault.text = "the launcher dies on " + node;
        break;
      case kLauncherStands:
        fault.text =
            fmt::format("the launcher stands still for {:.1f} s on {}", fault.amount, node);
        break;
      case kMachineIsCutOff:
        fault.text = fmt::format("the network is cut for {:.1f} s at {}", fault.amount, node);
        break;
      case kConnectionBreaks:
        fault.text = "the connection breaks of " + node;
        break;
      case kNetworkIsSlow:
        fault.text = fmt::format("words take up to 2 s, for {:.1f} s", fault.amount);
        break;
      default:
        fault.text = "SIGTERM to the launcher of " + node;
    }
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

std::string RendezvousScenario::run(uint64_t seed, const std::vector<Fault>& faults,
                                    Trace& trace) const {
  return RendezvousWorld(seed, faults, planted_, trace).run();
}

}  // namespace muster::sim

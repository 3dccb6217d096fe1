// Simulated machines, each with a launcher of `muster run --nodes` and its tasks. The rendezvous is
// Muster's own; launchers and connections are models of NodeRun, RendezvousClient and
// RendezvousServer. Thread safety: none.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/sim/agenda.h"
#include "apps/sim/rendezvous_scenario.h"
#include "muster/nodes/rendezvous.h"

namespace muster::sim {

using nodes::NodeOutcome;
using nodes::NodeReport;
using nodes::Rendezvous;
using nodes::RunView;

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

// Lives as long as one seed takes.
class RendezvousWorld {
 public:
  RendezvousWorld(uint64_t seed, const std::vector<Fault>& faults,
                  const RendezvousScenario::Planted& planted, Trace& trace);

  std::string run();

 private:
  static constexpr double kJoinTime = 60;  // seconds, as all times here
  static constexpr double kTick = 0.25;    // between a launcher's looks
  static constexpr double kSilence = 6, kReconnect = 2;
  // Tasks that are to end get this long before they are killed.
  static constexpr double kSurvivorTime = 15;

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
    std::optional<int> code{};  // over
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
  void when_awake(int node, const std::function<void()>& act);

  bool over() {
    return std::ranges::all_of(machines_,
                               [](const Machine& machine) { return machine.ended_well; });
  }

  // --- processes ---

  void start(int node);
  NodeReport report_of(int node) const;
  void die(int node, bool again);
  void end(const LauncherPtr& it, int code, bool heard);
  void strike(const Fault& fault);

  // --- connections ---

  // The server sees the end of a connection when the machine can be reached.
  void close_later(int64_t connection);
  void connect(const LauncherPtr& it);

  // A report on its way; the rendezvous hears it also when its sender is dead or cut off by then.
  void send(const LauncherPtr& it);
  void receive(const ServerPtr& server, int64_t connection, const NodeReport& report);
  void answer(int64_t connection, Server::Open& open, const RunView& view);

  // The server's threads look for news.
  void serve(const ServerPtr& server);

  // --- launchers ---

  void change(Launcher& it, const std::function<void(NodeReport&)>& edit) {
    edit(it.report);
    ++it.changes;
  }

  struct Loss {
    bool ended = false;
    double seconds = 0;
  };
  std::optional<Loss> loss(const Launcher& it) const;
  void tick(const LauncherPtr& it);
  void talk(const LauncherPtr& it);

  void go(Launcher& it, Launcher::Phase phase) {
    it.phase = phase;
    it.since = agenda_.now();
  }

  void act(const LauncherPtr& it);
  void join(const LauncherPtr& it);

  // Says which round began last, as NodeRun::hears() does.
  void hear(Launcher& it);
  void begin_tasks(const LauncherPtr& it);

  // They end within that time, and this is how.
  void end_tasks(const LauncherPtr& it, double seconds, const NodeOutcome& outcome);
  void watch_tasks(const LauncherPtr& it);
  void finish_tasks(const LauncherPtr& it);
  void leave(const LauncherPtr& it);

  // --- laws ---

  void check();
  void check_end();

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
  std::map<uint64_t, std::set<int>> codes_;                 // heard, by rendezvous
  std::map<std::pair<uint64_t, int64_t>, int> ended_well_;  // machines, by start
  std::map<uint64_t, int64_t> starts_of_;                   // by rendezvous
};

}  // namespace muster::sim

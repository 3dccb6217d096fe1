// Simulated machines, each with a launcher of `muster run --nodes` and its tasks. The rendezvous
// and what a launcher decides are Muster's own: nodes::Rendezvous, Launcher and RendezvousLink. The
// threads, connections and tasks of a launcher's process are models. Thread safety: none.
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
#include "muster/nodes/launcher.h"
#include "muster/nodes/rendezvous.h"
#include "muster/nodes/rendezvous_link.h"

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
  // Tasks that are to end get this long before they are killed.
  static constexpr double kSurvivorTime = 15;

  // Of an elastic run: tasks are killed, and start again, one by one.
  static constexpr double kMemoryTime = 40;  // the chief waits for enough others
  enum class Task { kRuns, kAsks, kLost };

  // A launcher's process.
  struct Process {
    const int node;
    const uint64_t number;
    nodes::Launcher launcher;
    nodes::RendezvousLink link;
    // The connection: 0 for none. One that breaks is seen later on both sides.
    int64_t connection = 0;
    bool connecting = false;
    double answer_at = 0;  // answers of one connection stay in order
    double heard_at = 0;   // the last one, or the begin of its tasks
    // The tasks, and the start of the run that they are of: the rendezvous and its number.
    std::optional<std::pair<uint64_t, int64_t>> begun{};
    bool runs = false;
    double begun_at = 0;
    bool ending = false;
    double tasks_end_at = 0;
    NodeOutcome outcome{};
    int stop_signal = 0;              // they got it
    std::optional<double> left_at{};  // it does nothing but leave
    // Of an elastic run.
    std::vector<Task> tasks{};  // the chief first
    int64_t answered = 0;
    std::vector<size_t> asking{};
    std::optional<double> alone_since{};  // without the chief; of the chief: with too few
    double work = 0;                      // seconds of steps that the chief has made
    std::optional<double> waits_since{};  // it is ready, and the others run
  };
  using ProcessPtr = std::shared_ptr<Process>;

  // The rendezvous in the process of machine 0's launcher.
  struct Server {
    uint64_t id = 0;
    std::unique_ptr<Rendezvous> rendezvous{};
    struct Open {
      std::weak_ptr<Process> launcher{};
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
    ProcessPtr launcher{};
    double cut_until = 0, still_until = 0;
    bool ended_well = false;  // its launcher has ended by itself, and is not started again
  };

  void note(const std::string& line) { trace_.add(agenda_.now(), line); }
  void note(const Process& it, const std::string& line) {
    if (trace_.kept()) note(fmt::format("launcher {}: {}", it.node, line));
  }
  Machine& machine(int node) { return machines_[static_cast<size_t>(node)]; }
  bool lives(const ProcessPtr& it) const {
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

  bool elastic() const { return least_ > 0; }
  bool over() {
    return std::ranges::all_of(machines_,
                               [](const Machine& machine) { return machine.ended_well; });
  }

  // --- processes ---

  void start(int node);
  void die(int node, bool again);
  void strike(const Fault& fault);

  // --- connections ---

  // The server sees the end of a connection when the machine can be reached.
  void close_later(int64_t connection);
  void connect(const ProcessPtr& it);

  // A report on its way; the rendezvous hears it also when its sender is dead or cut off by then.
  void send(Process& it, const NodeReport& report);
  // When what is sent now arrives, to the machine or from it.
  double arrival(int node);
  void receive(const ServerPtr& server, int64_t connection, const NodeReport& report);
  void answer(int64_t connection, Server::Open& open, const RunView& view);

  // The server's threads look for news.
  void serve(const ServerPtr& server);

  // --- launchers ---

  // What NodeRun and the threads of its client do, again and again.
  void tick(const ProcessPtr& it);
  void talk(const ProcessPtr& it);
  void act(const ProcessPtr& it);
  // With the planted mistakes.
  void say(Process& it);
  void leave(const ProcessPtr& it);

  // --- tasks, which launch::supervise() runs ---

  void begin_tasks(Process& it);
  // They end within that time, and this is how.
  void end_tasks(Process& it, double seconds, const NodeOutcome& outcome);
  void watch_tasks(Process& it);
  void finish_tasks(Process& it);

  // --- tasks of an elastic run ---

  void watch_elastic_tasks(Process& it);
  // What NodeRun gives to the launcher.
  launch::GroupState state_of(const Process& it) const;
  void take_answers(Process& it, const launch::OtherGroups& others);
  void lose_task(Process& it, size_t task);
  void train(Process& chief);
  void follow(Process& it);
  // Whether no task of the chief's start is lost.
  bool all_are_there();
  // How many tasks the chief can reach.
  int members(const Process& chief);
  // Whether the chief's machine trains, and this one can reach it.
  bool sees_chief(const Process& it);

  // --- laws ---

  void check_join(Process& it);

  void check();
  void check_end();

  const RendezvousScenario::Planted& planted_;
  Trace& trace_;
  Agenda agenda_;
  int nodes_ = 2, restarts_ = 0;
  int least_ = 0, tasks_ = 1;  // of an elastic run: machines that are enough, tasks of each
  double duration_ = 60;       // seconds of the tasks' work
  std::vector<Machine> machines_;
  ServerPtr server_;
  uint64_t processes_ = 0;
  int64_t connections_ = 0;
  double slow_until_ = 0;
  std::map<uint64_t, std::set<int>> codes_;                 // heard, by rendezvous
  std::map<std::pair<uint64_t, int64_t>, int> ended_well_;  // machines, by start
  std::map<uint64_t, int64_t> starts_of_;                   // by rendezvous
  std::map<uint64_t, int64_t> restarts_of_tasks_;           // by rendezvous
};

}  // namespace muster::sim

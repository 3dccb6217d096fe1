// The tasks of a group on a simulated network: the real Coordinator of the chief, what each task
// needs for the real CoordinatorClient, and faults of tasks and network. A scenario says what the
// tasks do. Thread safety: that of Stage.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/sim/stage.h"
#include "muster/base/random.h"
#include "muster/control/coordinator.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/join_options.h"
#include "muster/control/testing/simulated_network.h"

namespace muster::sim {

// What tests of the simulator plant in the coordinator.
struct PlantedCoordinator {
  bool barriers_open_early = false;  // now and then a barrier lets a member through at once
  bool hides_failures = false;       // members do not hear that their group has failed
  bool ignores_reports = false;      // of members that have lost a connection
  bool takes_any_model = false;      // a worker whose model differs is not refused
};

class GroupStage {
 public:
  GroupStage(const GroupStage&) = delete;
  GroupStage& operator=(const GroupStage&) = delete;

 protected:
  struct Options {
    int tasks = 2;
    int min_members = 0;  // more than 0: the run is elastic
    double reconnect_timeout = 2;
    PlantedCoordinator planted{};
  };
  // All faults outlive the stage. Tasks start within the first 5 seconds.
  GroupStage(uint64_t seed, const std::vector<Fault>& faults, Options options, Trace& trace);
  virtual ~GroupStage() = default;

  // What a task does, on a thread of its process. An Error ends the process; so does the return.
  virtual void train(int rank, Stage::Process& process) = 0;
  // A process of the task has ended: starts another one if there must be one.
  virtual void ended(int rank) = 0;
  // The connections of the task close, to other tasks too: it lives, or has died.
  virtual void disconnected(int rank) { (void)rank; }

  struct Task {
    Stage::Process* process = nullptr;
    int life = 0;
    bool alive = false;
    std::optional<double> waits_since{};  // at a barrier
    bool done = false;                    // it has made the last step, and met all others after it
    bool asked = false;                   // to stop
    bool differs = false;                 // its program is another one, with another model
    bool differs_next = false;            // that of its next process is
  };

  int tasks() const { return static_cast<int>(tasks_.size()); }
  Task& task(int rank) { return tasks_[static_cast<size_t>(rank)]; }
  const std::vector<Task>& all_tasks() const { return tasks_; }
  static std::string name_of(int rank);

  // Starts a process of the task, unless it has one or is done.
  void start(int rank);
  // The same within `least` to `most` seconds.
  void start_later(int rank, double least, double most);

  // Lets the world run until `done`, or until a law is broken; the waits of all tasks are bounded.
  void run_stage(double until, const std::function<bool()>& done);
  // The world is over. A scenario calls it while all that its threads use is there.
  void end_stage();

  control::JoinOptions join_options(int rank, Stage::Process& process);
  control::Coordinator& coordinator() { return coordinators_.back(); }
  // Processes of the chief so far.
  size_t coordinators() const { return coordinators_.size(); }
  // While one lives, the task waits for others, and check_waits() sees how long.
  class Waiting {
   public:
    Waiting(GroupStage& stage, int rank);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Task& task_;
    const int life_;  // the process may be replaced meanwhile
  };
  // A barrier of the task's client.
  void pass_barrier(int rank, control::CoordinatorClient& client, const std::string& name);
  void note(const std::string& line) {
    if (stage_.keeps_trace()) stage_.note(line);
  }

 private:
  class WrongCoordinator;

  void start_server();
  void end_server();
  void end_process(int rank);
  void strike(const Fault& fault);
  void check_waits();

  const Options options_;
  std::vector<Task> tasks_;
  std::deque<control::Coordinator> coordinators_;  // the last one serves, or has ended
  std::vector<std::unique_ptr<net::CoordinatorHandler>> wrong_;
  std::unique_ptr<control::SimulatedNetwork> network_;
  Stage::Process* server_ = nullptr;  // nullptr: there is none

 protected:
  Stage stage_;
};

// The faults of a seed of a group, by time. In an elastic one, tasks are also asked to stop, and
// workers come back with another program.
std::vector<Fault> group_faults(RandomKey key, bool elastic);

}  // namespace muster::sim

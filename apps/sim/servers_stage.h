// The processes of a run on parameter servers, on simulated sockets and a simulated clock: the real
// servers (ps::serve()), the real WorkerRun of each worker with its connections, heartbeats and
// threads, and faults of processes and network. A scenario says what workers do. Thread safety:
// that of Stage.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/sim/served_counts.h"
#include "apps/sim/stage.h"
#include "muster/net/testing/simulated_sockets.h"
#include "muster/ps/testing/tasks.h"

namespace muster::sim {

// What tests of the simulator plant in the servers.
struct PlantedServers {
  bool forgets_on_loss = false;    // the ledger denies every step that a server asks about
  bool mixes_up = false;           // one server gets the gradients of another example
  int skips = 0;                   // examples that a worker skips, or repeats, when it joins
  bool ignores_staleness = false;  // no worker waits for slower ones
  bool leaves_at_once = false;     // a server that is asked to stop waits for no save
};

class ServersStage {
 public:
  ServersStage(const ServersStage&) = delete;
  ServersStage& operator=(const ServersStage&) = delete;

 protected:
  struct Options {
    int workers = 1;
    int servers = 1;
    distribute::ParameterServerOptions run{};
    PlantedServers planted{};
  };
  ServersStage(uint64_t seed, const std::vector<Fault>& faults, Options options, Trace& trace);
  virtual ~ServersStage() = default;

  // One process of a worker, between two losses.
  struct Session {
    const int rank;
    Stage::Process& process;
    std::shared_ptr<ps::ServerConnections> connections;
    ServedCounts model;
    ps::WorkerRun run{connections};
  };
  // What a worker does until it has no more to do; throws when it loses a task.
  virtual void train(Session& session) = 0;
  // A worker is lost for good.
  virtual void gone(int rank) = 0;
  // A server has left, as it was asked to at that time.
  virtual void left(double asked_at) = 0;

  // Lets the world run until all tasks have ended, or a law is broken.
  void run_stage(double until);
  // The world is over. A scenario calls it while all that its threads use is there.
  void end_stage();
  // From now on nothing fails: the run is over, and would not be started again.
  void stop_faults() { faults_are_over_ = true; }
  // Since when the chief has been connected to all servers; nothing while it is not.
  std::optional<double> chief_is_here_since() const { return chief_is_here_since_; }
  void note(const std::string& line) {
    if (stage_.keeps_trace()) stage_.note(line);
  }
  int workers() const { return options_.workers; }
  int servers() const { return options_.servers; }

 private:
  struct Task {
    Stage::Process* process = nullptr;
    int life = 0;
    bool alive = false;
    bool done = false;
    std::optional<double> asked_at{};  // to stop
    double away = 0;                   // seconds for which it is away after that
  };
  // One process of a task.
  struct Life {
    Task& task;
    const int number;
    Stage::Process& process;
    bool over() const { return task.life != number; }
  };

  // With the run: a worker that was away finds none of them.
  bool servers_have_ended() const;
  double delay();
  distribute::StartOptions start_options(const Life& life, bool server, int index);
  ps::Surroundings surroundings(Stage::Process& process);
  void start(Task& task, const std::string& name, const std::function<void(const Life&)>& body);
  void start_worker(int rank);
  void start_server(int index);
  void work(int rank, const Life& life);
  void serve(int index, const Life& life);
  // Its process ends at once.
  void kill(Task& task);
  void strike(const Fault& fault);
  void strike_worker(const Fault& fault, int rank);
  void strike_server(const Fault& fault, int index);

  const Options options_;
  std::vector<Task> workers_, servers_;
  double late_until_ = 0;  // messages are late now and then
  bool faults_are_over_ = false;
  std::optional<double> chief_is_here_since_{};

 protected:
  Stage stage_;

 private:
  net::SimulatedSockets sockets_;
};

// The faults of a seed, by time.
std::vector<Fault> servers_faults(RandomKey key);

}  // namespace muster::sim

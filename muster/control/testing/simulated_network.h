// A network for tests between real clients and a real coordinator, on the simulated clock of
// SimulatedThreads: messages take random times, overtake each other, get lost, and a task can be
// cut off. Thread safety: the threads of SimulatedThreads, which run one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/base/simulated_threads.h"
#include "muster/net/coordinator_channel.h"
#include "muster/net/coordinator_handler.h"

namespace muster::inline v0_1::control {

// How the network treats its messages.
struct NetworkOptions {
  double longest_delay = 0.05;  // seconds a message may take
  double loss = 0;              // the part of messages that never arrive
  // A task loses no two messages in this many seconds: more in a row would be a lost task.
  double between_losses = 5;
  // The part of requests that arrive a second time, late: just before the next one of the task.
  double duplicates = 0;
};

class SimulatedNetwork {
 public:
  // `handler` answers at the other end of all channels.
  SimulatedNetwork(SimulatedThreads& simulated, net::CoordinatorHandler& handler,
                   NetworkOptions options);

  // A channel of the process.
  std::unique_ptr<net::CoordinatorChannel> connect(SimulatedThreads::Process& process);

  // No message of the task arrives before that time, nor one for it; its connections stay open.
  void cut_until(int process, TimePoint time) { link_of(process).cut_until = time; }
  // The connections of the task close; new ones may be opened.
  void disconnect(int process) { ++link_of(process).generation; }
  // How the network treats messages from now on.
  void set_options(const NetworkOptions& options) { options_ = options; }

  // The coordinator's process ends: all connections to it close.
  void end_server();
  // Another one begins. It answers nothing while `process`, if given, stands still. Both outlive
  // the network.
  void start_server(net::CoordinatorHandler& handler, const SimulatedThreads::Process* process);

 private:
  // Between a task and the coordinator.
  struct Link {
    TimePoint cut_until{};
    TimePoint next_loss{};
    int generation = 0;  // of its connections
  };
  class Channel;

  Link& link_of(int process);

  SimulatedThreads& simulated_;
  net::CoordinatorHandler* handler_;  // nullptr: its process has ended
  const SimulatedThreads::Process* server_ = nullptr;
  int servers_ = 0;  // that have ended
  NetworkOptions options_;
  std::vector<std::unique_ptr<Link>> links_;  // by the process's number
};

}  // namespace muster::inline v0_1::control

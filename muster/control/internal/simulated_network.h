// A network for tests between real clients and a real coordinator, on the simulated clock of
// SimulatedThreads: messages take random times, overtake each other, get lost, and a task can be
// cut off. Thread safety: the threads of SimulatedThreads, which run one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/control/internal/simulated_threads.h"
#include "muster/net/coordinator_channel.h"
#include "muster/net/coordinator_handler.h"

namespace muster::inline v0_1::control {

// How the network treats its messages.
struct NetworkOptions {
  double longest_delay = 0.05;  // seconds a message may take
  double loss = 0;              // the part of messages that never arrive
  // A task loses at most one message in this many seconds: more in a row would be a lost task.
  double between_losses = 5;
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
  // The coordinator's process ends.
  void end_server();

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
  net::CoordinatorHandler& handler_;
  const NetworkOptions options_;
  std::vector<std::unique_ptr<Link>> links_;  // by the process's number
  bool server_ended_ = false;
};

}  // namespace muster::inline v0_1::control

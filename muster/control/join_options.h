// A task's identity, its coordinator's address, and its timeouts. A value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/cluster/job_credentials.h"
#include "muster/net/coordinator_channel.h"

namespace muster::inline v0_1::control {

struct JoinOptions {
  std::string address{};  // the coordinator's
  std::string task{};     // "worker:1"
  int rank = 0;           // -1: an observer (evaluator, parameter server)
  int world_size = 1;
  std::vector<std::string> addresses{};  // of the group in rank order, to compare; may be empty
  uint64_t incarnation = 0;              // 0: a random one
  double join_timeout = 600;             // seconds until missing tasks are given up
  // Seconds without an answer after which a coordinator that has answered before, to this call or
  // (`answered_before`) to an earlier one, counts as lost while this task joins; reconnect_timeout
  // is enough if it accepts no connection. Unset: never.
  std::optional<double> lost_timeout{};
  bool answered_before = false;
  // Is asked before every try, at least every half second; true ends a wait for the group, or at a
  // barrier, with Cancelled. Those who come in their own time, because they save or evaluate, are
  // waited for `stop_timeout` seconds even then.
  std::function<bool()> cancelled{};
  double stop_timeout = 20;
  // Seconds between log lines that name who is missing; the first comes after half of it.
  double report_every = 10;
  double heartbeat_interval = 1;
  // Seconds without an answer after which the coordinator counts as lost.
  double heartbeat_timeout = 6;
  double reconnect_timeout = 2;  // seconds a closed connection to it may take to come back
  // Seconds the coordinator holds a waiting call before it is asked again.
  double poll_interval = 2;
  cluster::Job job{};  // what the coordinator knows this task by
  // On the task that serves the coordinator: the task that it refused last, or "". A task that it
  // does not accept cannot say itself why it is missing.
  std::function<std::string()> last_refusal{};
  // How a task of the group has to be started, "with RANK=1, WORLD_SIZE=2 and MASTER_ADDR=node1";
  // said once of one that does not come. Empty: nobody knows.
  std::function<std::string(const std::string& task)> how_started{};
  // The call of the program that waits here, "Estimator::evaluate()", for messages.
  std::string call = "its call";
  // The last group of these tasks ended well: one that is missing has ended, or makes no such call.
  bool again = false;
  // The rank of a task whose process is known to have ended since; nothing of any other.
  std::function<std::optional<int>(const std::string& task)> ended{};
  std::string coordinator_task = "chief:0";  // how messages call the task that serves it
  Clock* clock = &system_clock();            // outlives the client
  net::ConnectCoordinator connect{};         // empty: over a net::SocketChannel
};

}  // namespace muster::inline v0_1::control

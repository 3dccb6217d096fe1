// Servers and clients for tests over real sockets.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/control/coordinator_client.h"
#include "muster/control/coordinator_server.h"

namespace muster::inline v0_1::control {

// A member counts as silent if a busy machine lets it stand still. No test waits this long in real
// time.
inline constexpr double kHeartbeatTimeout = 20;
// Short, since tests wait for it; no connection closes by itself.
inline constexpr double kGrace = 0.7;
// Nothing here takes this long unless it hangs.
inline constexpr auto kForever = std::chrono::seconds(40);
// Seconds for an answer that comes at once.
inline constexpr double kAnswer = 30;

inline std::string task_of(int rank) {
  return rank == 0 ? "chief:0" : fmt::format("worker:{}", rank - 1);
}

inline ServerOptions test_server_options(int tasks, double progress_timeout = 30) {
  ServerOptions options;
  options.address = "127.0.0.1:0";
  options.group.heartbeat_timeout = kHeartbeatTimeout;
  options.group.reconnect_timeout = kGrace;
  options.group.progress_timeout = progress_timeout;
  for (int rank = 0; rank < tasks; ++rank) {
    options.group.roster.push_back({task_of(rank), fmt::format("127.0.0.1:{}", 2222 + rank)});
  }
  return options;
}

inline JoinOptions test_join_options(const std::string& address, int rank, int tasks) {
  return {.address = address,
          .task = task_of(rank),
          .rank = rank,
          .world_size = tasks,
          .join_timeout = 30,
          .heartbeat_interval = 0.2,
          .heartbeat_timeout = kHeartbeatTimeout,
          .reconnect_timeout = kGrace,
          .poll_interval = 0.5};
}

using Client = std::unique_ptr<CoordinatorClient>;

inline std::vector<Client> join_all(const std::string& address, int tasks, int first = 0) {
  std::vector<std::future<Client>> joining;
  for (int rank = first; rank < tasks; ++rank) {
    joining.push_back(std::async(std::launch::async, [=] {
      return CoordinatorClient::join(test_join_options(address, rank, tasks));
    }));
  }
  std::vector<Client> clients;
  for (auto& join : joining) clients.push_back(join.get());
  return clients;
}

// The argument of on_failure, once it was called.
class Heard {
 public:
  explicit Heard(CoordinatorClient& client) {
    client.on_failure([state = state_](const Failure& failure) {
      std::lock_guard lock(state->mutex);
      ++state->calls;
      state->failure = failure;
      state->changed.notify_all();
    });
  }
  std::optional<Failure> wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, kForever, [&] { return state_->calls > 0; });
    return state_->failure;
  }
  int calls() {
    std::lock_guard lock(state_->mutex);
    return state_->calls;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int calls = 0;
    std::optional<Failure> failure;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

inline void end_cleanly(std::vector<Client>& clients, CoordinatorServer& server) {
  for (Client& client : clients) client->done();
  for (Client& client : clients) client->close();
  EXPECT_TRUE(server.stop(30));
  EXPECT_FALSE(server.first_failure());
}

}  // namespace muster::inline v0_1::control

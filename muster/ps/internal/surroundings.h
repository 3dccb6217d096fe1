// The clock, the threads and the connections of a task of a run on parameter servers: those of this
// machine, or of a simulation. Thread safety: values; their functions from any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "muster/base/clock.h"
#include "muster/net/message_server.h"
#include "muster/net/message_socket.h"

namespace muster::inline v0_1::ps {

// A server at an address; its end is that of MessageServer.
struct Service {
  std::string address{};
  std::function<void()> stop{};
};

struct Surroundings {
  Clock* clock = &system_clock();
  // Starts a thread. The result waits for its last moments, after `body` has returned.
  std::function<std::function<void()>(std::function<void()> body)> start_thread =
      [](std::function<void()> body) {
        const auto thread = std::make_shared<std::thread>(std::move(body));
        return [thread] { thread->join(); };
      };
  std::function<std::unique_ptr<net::MessageSocket>(const net::ConnectOptions&)> connect =
      net::connect_messages;
  std::function<Service(const net::MessageServerOptions&, net::MessageServer::Serve)> serve =
      [](const net::MessageServerOptions& options, net::MessageServer::Serve answer) {
        const auto server = std::make_shared<net::MessageServer>(options, std::move(answer));
        return Service{.address = server->address(), .stop = [server] { server->stop(); }};
      };
  double look = 0.02;  // seconds between two looks of a server at its run
};

// A thread whose end is awaited by the clock of its surroundings.
class Thread {
 public:
  // `surroundings` outlive it.
  Thread(const Surroundings& surroundings, std::function<void()> body)
      : clock_(*surroundings.clock),
        join_(surroundings.start_thread([this, body = std::move(body)] {
          body();
          const std::lock_guard lock(mutex_);
          over_ = true;
          changed_.notify_all();
        })) {}
  // Waits for its end. REQUIRES: its body ends, or is told to end.
  ~Thread() {
    {
      std::unique_lock lock(mutex_);
      clock_.wait_until(lock, changed_, TimePoint::max(), [this] { return over_; });
    }
    join_();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

 private:
  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  const std::function<void()> join_;
};

}  // namespace muster::inline v0_1::ps

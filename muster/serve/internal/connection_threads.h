// The threads that connections have, for cpp-httplib. Thread safety: enqueue() and shutdown() are
// called by the thread that accepts.
#pragma once

#include <httplib.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace muster::inline v0_1::serve::internal {

// Gives each connection a thread, up to a number of them; threads are started as they are needed
// and used again. Beyond the number, one more thread only refuses; when too many wait for that,
// enqueue() blocks, and nothing is accepted.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  // `connections` counts those that are open; it must outlive the threads.
  ConnectionThreads(int most, std::atomic<int64_t>& connections);

  // Newer versions of the library want to know whether the connection was taken.
  using Taken = decltype(std::declval<httplib::TaskQueue&>().enqueue(std::function<void()>()));
  Taken enqueue(std::function<void()> serve) override;
  // Waits for all connections.
  void shutdown() override;

  // Whether the connection that the calling thread has is to be refused.
  static bool refuses();

 private:
  void put(std::function<void()> serve);
  void serve_connections();
  void refuse_connections();

  const size_t most_;
  std::atomic<int64_t>& connections_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable refusing_;
  std::condition_variable has_room_;
  std::deque<std::function<void()>> waiting_;
  std::deque<std::function<void()>> refused_;
  size_t idle_ = 0;  // threads that wait for a connection
  bool ending_ = false;
  std::vector<std::thread> threads_;
  std::thread refuser_;
};

}  // namespace muster::inline v0_1::serve::internal

// The threads that connections have. Thread safety: take() is called by the thread that accepts.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1::serve::internal {

// Gives each connection a thread, up to a number of them. Threads are started as they are needed,
// and used again.
class ConnectionThreads {
 public:
  // `serve` has a connection until it returns; it throws nothing.
  ConnectionThreads(int most, std::function<void(FileDescriptor)> serve);
  // Waits for all connections.
  ~ConnectionThreads();

  // Takes the connection. False, and it stays the caller's, while there are as many as there may
  // be, or the system gives no more threads.
  bool take(FileDescriptor& connection);

 private:
  void run();

  const size_t most_;
  const std::function<void(FileDescriptor)> serve_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<FileDescriptor> waiting_;
  size_t open_ = 0;  // connections, including those that wait for a thread
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace muster::inline v0_1::serve::internal

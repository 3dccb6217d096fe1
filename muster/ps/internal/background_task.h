// A thread that makes one task at a time for the thread that sends it. Thread safety: one thread
// sends and waits; what a task uses is its own until wait() has returned.
#pragma once

#include <functional>
#include <memory>

namespace muster::inline v0_1::ps {

class BackgroundTask {
 public:
  BackgroundTask();
  // Waits for the task that is under way, and drops its error.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // REQUIRES: none is under way.
  void send(std::function<void()> task);
  // Waits until none is, and throws what it threw, once.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::ps

// A thread that makes one task at a time for the thread that sends it. Thread safety: one thread
// sends and waits; a task's data belongs to it until wait() has returned.
#pragma once

#include <functional>
#include <memory>

#include "muster/ps/internal/surroundings.h"

namespace muster::inline v0_1::ps {

class BackgroundTask {
 public:
  // `surroundings` outlive it.
  explicit BackgroundTask(const Surroundings& surroundings);
  // Waits for the task that is under way, and drops its error.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // REQUIRES: none is under way.
  void send(std::function<void()> task);
  // Waits until there is none, and throws its error, once.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::ps

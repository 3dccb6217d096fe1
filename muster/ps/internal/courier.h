// A thread that makes one errand at a time for the thread that sends it. Thread safety: one thread
// sends and waits; what an errand uses is the errand's until wait() has returned.
#pragma once

#include <functional>
#include <memory>

namespace muster::inline v0_1::ps {

class Courier {
 public:
  Courier();
  // Waits for the errand that is under way, whose error nobody hears.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // REQUIRES: none is under way.
  void send(std::function<void()> errand);
  // Waits until none is, and throws what it threw, once.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::ps

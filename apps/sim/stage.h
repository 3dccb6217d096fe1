// A simulated world of processes, each a real thread or several that run in turn on a simulated
// clock, and of events at their times. Thread safety: all calls from the thread that made the stage
// or from the processes on it, which run one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "apps/sim/simulation.h"
#include "muster/base/simulated_threads.h"

namespace muster::sim {

class Stage {
 public:
  Stage(uint64_t seed, Trace& trace) : simulated(seed), trace_(trace) {}
  // end()
  ~Stage() { end(); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  using Process = SimulatedThreads::Process;
  // A place for a process, which start() starts.
  Process& make_process();
  // Starts a thread of it. A Broken that `body` throws ends the run; another exception is a broken
  // law too.
  void start(Process& process, std::function<void()> body);
  // Calls `event` at that time, from the thread that runs the stage.
  void at(double seconds, std::function<void()> event) {
    events_.emplace(seconds, std::move(event));
  }
  void after(double seconds, std::function<void()> event) {
    at(simulated.seconds() + seconds, std::move(event));
  }
  // Lets the world run until `done`, a broken law, or that time, which is one.
  void run(double until, const std::function<bool()>& done);
  // The world is over: processes end as soon as they see it, and are waited for.
  void end();
  bool over() const { return over_; }

  // A law is broken.
  void fail(const std::string& law);
  // "" while all laws hold.
  const std::string& broken() const { return broken_; }
  void note(const std::string& line) { trace_.add(simulated.seconds(), line); }
  bool keeps_trace() const { return trace_.kept(); }

  SimulatedThreads simulated;

 private:
  Trace& trace_;
  SimulatedThreads::Process outside_{simulated, -1};
  std::deque<Process> processes_;
  std::multimap<double, std::function<void()>> events_;
  bool over_ = false;
  std::string broken_;
};

}  // namespace muster::sim

// The tasks of a run that share one simulated disk. A scenario says what they do. Thread safety:
// that of Stage.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "apps/sim/stage.h"
#include "muster/base/simulated_disk.h"

namespace muster::sim {

class DiskStage {
 public:
  DiskStage(const DiskStage&) = delete;
  DiskStage& operator=(const DiskStage&) = delete;

 protected:
  DiskStage(uint64_t seed, Trace& trace)
      : stage_(seed, trace),
        disk_(stage_.simulated, [this](const std::string& line) { note(line); }) {}
  virtual ~DiskStage() = default;

  // A task, and the process that it has now.
  struct Task {
    Stage::Process* process = nullptr;
    SimulatedDisk::Mount* files = nullptr;
    bool alive = false;
    bool struck = false;  // by a fault, at any time
  };

  // Runs `body` as the task's next process, and `ended` after it, also where an Error ended it.
  void start(
      Task& task, const std::string& name,
      std::function<void(Stage::Process&, SimulatedDisk::Mount&)> body,
      std::function<void()> ended = [] {});
  // The machine loses its power: all processes die, and what was not synced is lost.
  void cut_power();
  // The world is over. A scenario calls it while all that its threads use is there.
  void end_stage();
  void note(const std::string& line) {
    if (stage_.keeps_trace()) stage_.note(line);
  }

  Stage stage_;
  SimulatedDisk disk_;

 private:
  std::deque<std::unique_ptr<SimulatedDisk::Mount>> mounts_;
};

}  // namespace muster::sim

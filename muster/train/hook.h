// A Hook is told what a training run does, and may ask it to stop.
// Thread safety: called from the training thread. What a hook throws ends the run, on all workers.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

struct RunInfo {
  int64_t start_step = 0;
  int64_t last_step = -1;  // where the run will end; -1: unknown
  int num_replicas = 1;
  bool is_chief = true;
  std::string model_dir;
};

struct StepInfo {
  int64_t global_step = 0;  // after the update
  double loss = 0;          // of this step over all replicas
  int64_t rows = 0;         // examples of this step over all replicas
  // Set it to end the run after this step; with several workers after the next one, on all of them.
  bool* stop = nullptr;
};

class Hook {
 public:
  virtual ~Hook() = default;
  virtual void begin(const RunInfo&) {}
  virtual void after_step(const StepInfo&) {}
  // A checkpoint was written. Only on the chief.
  virtual void after_save(int64_t /*global_step*/, const std::string& /*prefix*/) {}
  // Only on a clean end: steps done, end of input, or stopped on request.
  virtual void end(int64_t /*global_step*/) {}
};

}  // namespace muster

// An Estimator's training as a contestant: a step is made when it is its turn. Several of them can
// wait for each other after every step, and exchange nothing. Thread safety: as Hook.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "benchmarks/support/step_pacer.h"
#include "muster/distribute/strategy.h"
#include "muster/estimator/run_config.h"
#include "muster/train/hook.h"

namespace muster::bench {

class StepPacerHook : public Hook {
 public:
  void begin(const RunInfo&) override { pacer_.next(); }
  void after_step(const StepInfo& info) override {
    if (!pacer_.next(info.loss)) info.control.request_stop();
  }

 private:
  StepPacer pacer_;
};

// Stands before a StepPacerHook.
class BarrierHook : public Hook {
 public:
  void after_step(const StepInfo&) override { barrier_.wait(); }

 private:
  static int number(const char* name) { return std::atoi(std::getenv(name)); }

  // As compare() sets it for every contestant.
  SharedBarrier barrier_{number("BENCH_BARRIER"), number("RANK"), number("WORLD_SIZE")};
};

// The hooks of a contestant's training: with a barrier of its own, or with all workers. `config`
// learns which.
inline std::vector<std::shared_ptr<Hook>> step_pacer_hooks(bool barrier, RunConfig& config) {
  std::vector<std::shared_ptr<Hook>> hooks{std::make_shared<StepPacerHook>()};
  if (barrier) {
    config.environment = Environment();  // each is alone
    hooks.insert(hooks.begin(), std::make_shared<BarrierHook>());
  } else {
    config.train_distribute = distribute::multi_worker_mirrored();
  }
  return hooks;
}

}  // namespace muster::bench

// An Estimator's training as a contestant: a step is made when it is its turn.
// Thread safety: as Hook.
#pragma once

#include "benchmarks/support/turns.h"
#include "muster/train/hook.h"

namespace muster::bench {

class TurnsHook : public Hook {
 public:
  void begin(const RunInfo&) override { turns_.next(); }
  void after_step(const StepInfo& info) override {
    if (!turns_.next(info.loss)) *info.stop = true;
  }

 private:
  Turns turns_;
};

}  // namespace muster::bench

// An Estimator's training as a contestant: a step is made when it is its turn. And several of them
// that meet behind every step, and exchange nothing. Thread safety: as Hook.
#pragma once

#include <cstdlib>

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

// Stands before a TurnsHook.
class BarrierHook : public Hook {
 public:
  void after_step(const StepInfo&) override { barrier_.wait(); }

 private:
  static int number(const char* name) { return std::atoi(std::getenv(name)); }

  // As compare() tells every contestant.
  SharedBarrier barrier_{number("BENCH_BARRIER"), number("RANK"), number("WORLD_SIZE")};
};

}  // namespace muster::bench

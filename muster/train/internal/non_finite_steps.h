// Counts the steps of a run that were not finite, and applies the policy to them. Thread safety:
// belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/distribute/step.h"
#include "muster/tensor/tensor.h"
#include "muster/train/engine.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1::internal {

class NonFiniteSteps {
 public:
  // Both outlive it.
  NonFiniteSteps(const TrainerOptions& options, Engine& engine);

  // The run has skipped, and rolled back, so many steps before.
  void continue_from(int64_t skipped, int64_t roll_backs) {
    skipped_ = skipped;
    roll_backs_ = roll_backs;
  }
  // Called before the first batch of every step: values that a forward pass writes by itself, such
  // as statistics of batches, can be restored.
  void begin_step();
  // A step was not finite. `roll_back` returns to the last save and gives its prefix. Throws
  // NonFinite, on all replicas, when the limit is reached.
  void note(const distribute::StepResult& made, const std::function<std::string()>& roll_back);

  int64_t skipped() const { return skipped_; }
  int64_t roll_backs() const { return roll_backs_; }

 private:
  const TrainerOptions& options_;
  Engine& engine_;
  std::vector<Tensor> before_;  // variables of kOnRead, with kSkip
  int64_t skipped_ = 0;
  int64_t roll_backs_ = 0;
};

}  // namespace muster::inline v0_1::internal

#include "muster/layers/step_context.h"

#include <utility>

namespace muster::inline v0_1 {

void StepContext::begin_step(bool training, int64_t step, int64_t replica, int64_t batch) {
  training_ = training;
  step_ = step;
  replica_ = replica;
  batch_ = batch;
  ++steps_begun_;
  losses_.clear();
  if (training && has_folded_) {
    // They would not be these any more, and training wants the memory.
    for (auto& [id, state] : states_) state.folded.reset();
    has_folded_ = false;
  }
}

void StepContext::set_frozen(std::function<bool(const std::string& name)> frozen) {
  frozen_ = std::move(frozen);
}

void StepContext::set_replicas(int64_t count, std::function<Tensor(const Tensor&)> sum) {
  num_replicas_ = count;
  sum_over_replicas_ = std::move(sum);
}

}  // namespace muster::inline v0_1

#include "muster/parallel/internal/loop_view.h"

#include <utility>

namespace muster::inline v0_1::internal {

using plan::Activity;

LoopView::LoopView(const distribute::ReplicaPlace& place)
    : alone_(place.replicas() == 1),
      // Without averages nobody knows where a step ends, and what is an evaluation.
      watch_({.place = place, .watchdog = alone_ ? 0 : watchdog_seconds()}),
      record_(place.name(), watch_.run()) {
  record_.enter(Activity::kProgram);
}

void LoopView::set_step(int64_t step) {
  step_ = step;
  record_.set_step(step);
}

void LoopView::begin_forward(bool adds_up) {
  watch_.begin(/*trains=*/true);
  if (alone_ && in_step_ && !adds_up) record_.end_step(++step_);
  in_step_ = true;
  reads_next_ |= alone_;
  if (record_.activity() != Activity::kCompute) record_.enter(Activity::kCompute);
}

void LoopView::show_left(int64_t batches) {
  if (batches < 0) return record_.set_last_step(-1);
  if (one_a_step_) record_.set_last_step(read_at_ + batches);
}

void LoopView::end_backward() {
  if (std::exchange(in_step_, false)) record_.end_step(++step_);
  reads_next_ = true;
  record_.enter(Activity::kProgram);
}

Activity LoopView::reading() {
  if (!std::exchange(reads_next_, false)) {
    ++others_;
    return Activity::kProgram;
  }
  // Alone, a step ends with the next forward.
  const int64_t step = step_ + (in_step_ ? 1 : 0);
  one_a_step_ = std::exchange(others_, 0) == 0 && step == read_at_ + 1;
  read_at_ = step;
  return Activity::kInput;
}

}  // namespace muster::inline v0_1::internal

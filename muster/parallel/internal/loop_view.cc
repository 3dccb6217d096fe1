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
  if (record_.activity() != Activity::kCompute) record_.enter(Activity::kCompute);
}

void LoopView::end_backward() {
  if (std::exchange(in_step_, false)) record_.end_step(++step_);
  reads_next_ = true;
  record_.enter(Activity::kProgram);
}

Activity LoopView::reading() {
  return std::exchange(reads_next_, false) ? Activity::kInput : Activity::kProgram;
}

}  // namespace muster::inline v0_1::internal
